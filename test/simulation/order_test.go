package simulation_test

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// judgeQueue judges that a call has left the order in a queue as it was, and has added no more
// than MaxQueue allows. The caller holds w.mu.
func (w *world) judgeQueue(s *server, o *object) {
	before := w.before[o]
	rest := before.queue
	for _, entry := range s.queue(o) {
		if i := slices.Index(rest, entry); i >= 0 {
			rest = rest[i+1:]
		} else if slices.Contains(before.queue, entry) {
			w.failf("order", "%s loses its place in the queue of %s", w.readable(entry), o.name)
		}
	}
	for _, q := range [][2][]string{{before.queue, s.queue(o)}, {before.line, s.line(o)}} {
		rest := q[0]
		for _, entry := range q[1] {
			if len(rest) > 0 && rest[0] == entry { // most keep their place
				rest = rest[1:]
				continue
			}
			if slices.Contains(q[0], entry) {
				continue
			}
			if most := w.options.MaxQueue; most > 0 && len(q[1]) > most && !w.queued[entry] {
				w.failf("P8", "%s is one of %d that wait for %s, and %d may", w.readable(entry), len(q[1]), o.name, most)
			}
			w.queued[entry] = true // it may come back
		}
	}
}

// judgeWaiters judges that without faults no more calls of a client are queued for an object
// than wait for it. The caller holds w.mu.
func (w *world) judgeWaiters(s *server) {
	if len(w.plan.profile.faults) > 0 {
		return
	}
	all, wait := make([]int, len(w.processes)), make([]int, len(w.processes))
	for _, o := range w.objects {
		for _, entries := range [][]string{s.queue(o), s.line(o)} {
			for _, entry := range entries {
				if p, _ := w.processOf(entry); p != nil {
					all[p.number]++
				}
			}
		}
	}
	for _, c := range w.calls {
		wait[c.process.number] += len(c.objects)
	}
	for i, p := range w.processes {
		queued, waiting := all[i], wait[i]
		if queued <= waiting {
			delete(w.stale, p)
		} else if since, ok := w.stale[p]; !ok {
			w.stale[p] = time.Now()
		} else if time.Since(since) > time.Second {
			w.failf("P7", "%d calls of client %d are queued, and %d wait", queued, p.number, waiting)
			w.stale[p] = time.Now()
		}
	}
}

// judgeOrder judges a call for a fair lock: an owner that comes enters the queue at its end, the
// lock goes to the first of the queue, and no owner whose client asks leaves the queue. The
// caller holds w.mu.
func (w *world) judgeOrder(s *server, c driver.Call, o *object, holds []hold) {
	if !strings.HasPrefix(c.Script.Name, "fair_") || !slices.Contains(c.Keys, o.name) {
		return
	}
	before, after := w.before[o].line, s.line(o)
	came := false
	for _, id := range after {
		old := slices.Contains(before, id)
		if came = came || !old; came && old {
			w.failf("order", "%s is in the queue of %s behind one that came later", w.owner(o, id).name, o.name)
			return
		}
	}
	for _, h := range holds {
		id := h.id
		if has(w.before[o].holds, id) != nil {
			continue
		}
		if i := slices.IndexFunc(before, func(x string) bool { return x != id && slices.Contains(after, x) }); i >= 0 && !slices.Contains(before[:i], id) {
			w.failf("order", "%s gets %s before %s, which is first", w.owner(o, id).name, o.name, w.owner(o, before[i]).name)
		}
	}
	for _, id := range before {
		x := w.owner(o, id)
		if has(holds, id) != nil || slices.Contains(after, id) || named(c, id) || x.process == nil || x.late || w.plan.profile.setting != steady {
			continue
		}
		since, _, calm := x.process.links[x.number].calmSince(s)
		waits := slices.ContainsFunc(w.calls, func(c *call) bool { return c.process == x.process })
		if calm && waits && time.Since(since) > 10*time.Second && time.Since(w.resumed) > 10*time.Second {
			w.failf("order", "%s leaves the queue of %s, and its client can reach the server", x.name, o.name)
		}
	}
}

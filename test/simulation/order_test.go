package simulation_test

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// line returns the owners that wait for a fair lock, in their order at the server.
func (s *server) line(o *object) []string {
	return s.texts("LRANGE", "redisson_lock_queue:{"+o.name+"}", "0", "-1")
}

// judgeOrder judges a call for a fair lock: an owner that comes enters the queue at its end, the
// lock goes to the first of the queue, and no owner whose client asks leaves the queue. The
// caller holds w.mu.
func (w *world) judgeOrder(s *server, c driver.Call, o *object, holds map[string]time.Time) {
	if !strings.HasPrefix(c.Script.Name, "fair_") || !slices.Contains(c.Keys, o.name) {
		return
	}
	before, after := w.lines[o], s.line(o)
	came := false
	for _, id := range after {
		old := slices.Contains(before, id)
		if came = came || !old; came && old {
			w.failf("order", "%s is in the queue of %s behind one that came later", w.owner(o, id).name, o.name)
			return
		}
	}
	for id := range holds {
		if _, had := w.present[o][id]; had {
			continue
		}
		if i := slices.IndexFunc(before, func(x string) bool { return x != id && slices.Contains(after, x) }); i >= 0 && !slices.Contains(before[:i], id) {
			w.failf("order", "%s gets %s before %s, which is first", w.owner(o, id).name, o.name, w.owner(o, before[i]).name)
		}
	}
	for _, id := range before {
		x := w.owner(o, id)
		if _, got := holds[id]; got || slices.Contains(after, id) || named(c, id) || x.process == nil || x.late || w.plan.profile.setting != steady {
			continue
		}
		since, _, calm := x.process.links[x.number].calmSince(s)
		waits := slices.ContainsFunc(w.calls, func(c *call) bool { return c.process == x.process })
		if calm && waits && time.Since(since) > 10*time.Second && time.Since(w.resumed) > 10*time.Second {
			w.failf("order", "%s leaves the queue of %s, and its client can reach the server", x.name, o.name)
		}
	}
}

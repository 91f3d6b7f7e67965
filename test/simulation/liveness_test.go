package simulation_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// judgeFree judges P5: calls that can reach the server do not wait for longer than the bound for
// an object that no user holds. A hold of a client that has crashed counts until it is over.
func (w *world) judgeFree() {
	for _, o := range w.objects {
		w.uses[o].counted = false
	}
	for c := range w.free {
		if !slices.Contains(w.calls, c) {
			delete(w.free, c)
		}
	}
	for _, c := range w.calls {
		ready, begin := w.grantable(c)
		if !ready {
			delete(w.free, c)
			continue
		}
		if t, known := w.free[c]; !known {
			w.free[c] = time.Now()
			begin = time.Now()
		} else if t.After(begin) {
			begin = t
		}
		if d := time.Since(begin); d > w.bound(c) {
			w.failf("P5", "%v waits for %v, and could have it%s", c, d, w.unused(c))
			w.free[c] = time.Now()
		}
	}
}

// grantable reports whether a call could have its objects, and since when its client can
// reach the servers.
func (w *world) grantable(c *call) (ready bool, begin time.Time) {
	begin = w.resumed
	for i, o := range c.objects {
		if !w.fits(&c.kinds[i], o) || o.capacity > 0 && w.behind(c, o) {
			return false, begin
		}
	}
	for i, n := range w.nets {
		since, moved, calm := c.process.links[i].calmSince(n.master)
		if !calm || time.Now().Before(n.master.resumes) || w.plan.profile.setting == strict && n.master.connected() == 0 {
			return false, begin
		}
		for _, t := range []time.Time{since, moved, n.master.resumes, n.master.cut, c.since} {
			if t.After(begin) && !t.After(time.Now()) {
				begin = t
			}
		}
	}
	return true, begin
}

// behind reports whether an earlier call of the same client waits for permits: the calls of
// one client are served in the order in which they were refused.
func (w *world) behind(c *call, o *object) bool {
	answered := c.since.Add(answerTimeout)
	if w.plan.profile.bound > 0 {
		answered = c.since.Add(10 * time.Millisecond)
	}
	return slices.ContainsFunc(w.calls, func(x *call) bool {
		return x != c && x.process == c.process && slices.Contains(x.objects, o) && x.since.Before(answered)
	})
}

// unused returns in words what is held of the objects of a call, and not used.
func (w *world) unused(c *call) string {
	var b strings.Builder
	for _, o := range c.objects {
		for _, h := range w.holds(o) {
			if x := w.owner(o, h.id); w.idle(x) && !w.gathers(x, o) {
				fmt.Fprintf(&b, "; %s has %s for %v more, and does not use it", x.name, o.name, h.left)
			}
		}
	}
	return b.String()
}

// fits reports whether an object could be granted, because no user holds it, or too few.
func (w *world) fits(k *kind, o *object) bool {
	u := w.uses[o]
	if !u.counted {
		u.counted, u.used = true, 0
		for _, h := range w.holds(o) {
			if x := w.owner(o, h.id); !w.idle(x) || w.gathers(x, o) {
				u.used++
			}
		}
	}
	switch {
	case o.capacity > 0:
		return o.capacity-u.used >= k.permits
	case k.shared:
		alone := u.used > 0 && w.net.master.content(o).mode != "read"
		return !alone && !slices.ContainsFunc(w.calls, func(x *call) bool {
			i := slices.Index(x.objects, o)
			return i >= 0 && !x.kinds[i].shared
		})
	default:
		return u.used == 0
	}
}

// idle reports whether a client that can reach the server does not use what it has there.
func (w *world) idle(x *owner) bool {
	if x.process == nil || x.kept || !x.process.live() || clock.Now() < x.ends {
		return false
	}
	since, _, calm := x.process.links[x.number].calmSince(w.nets[x.number].master)
	if !calm || time.Since(since) < answerTimeout || time.Since(w.resumed) < time.Second {
		return false
	}
	for _, l := range w.leases {
		for _, p := range l.parts {
			if slices.Contains(p.owners, x) {
				return false
			}
		}
	}
	return true
}

// gathers reports whether a client has an object for a set that waits for another one, which is
// held. judgeServed finds sets that block each other.
func (w *world) gathers(x *owner, o *object) bool {
	return slices.ContainsFunc(w.calls, func(c *call) bool {
		return c.process == x.process && slices.Contains(c.objects, o) && slices.ContainsFunc(c.objects, func(other *object) bool {
			return other != o && len(w.holds(other)) > 0
		})
	})
}

// bound returns for how long a call may wait for something free.
func (w *world) bound(c *call) time.Duration {
	switch {
	case w.plan.profile.bound > 0:
		return w.plan.profile.bound
	case w.plan.profile.sets: // it holds some locks while it waits for others
		return time.Minute
	}
	if c.objects[0].capacity > 0 {
		return poll + 7*time.Second + 3*time.Second*time.Duration(w.gone) // a part of the permits may be granted after the other
	}
	return poll + 4*time.Second + 3*time.Second*time.Duration(w.gone) // a grant to a client that is gone lasts three seconds
}

// judgeServed judges that a few clients have all got something since they had got so much. At a
// redlock there is no order.
func (w *world) judgeServed(before []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.processes) > 4 || len(w.nets) > 1 || len(w.plan.profile.faults) == 0 || w.plan.profile.long || w.plan.profile.sets {
		return
	}
	for i, p := range w.processes {
		if p.served == before[i] && w.plan.users[i] > 0 && p.live() && !p.links[0].closed() {
			w.failf("P5", "client %d got nothing in a minute without faults", i)
		}
	}
}

// left returns the keys that are left at the end, except for those that stay.
func (w *world) left(s *server) []string {
	keys := s.texts("KEYS", "*")
	return slices.DeleteFunc(slices.Sorted(slices.Values(keys)), func(key string) bool {
		for _, o := range w.objects {
			if o.capacity > 0 && (key == o.name || key == "{"+o.name+"}:timeout") || key == "redisson_lock_token:{"+o.name+"}" {
				return true
			}
			if w.gone > 0 && (key == "redisson_lock_queue:{"+o.name+"}" || key == "redisson_lock_timeout:{"+o.name+"}") && s.number("PTTL", key) > 0 {
				return true // the waiters of a fair lock were killed
			}
		}
		return strings.HasPrefix(key, "holdfast:client:") || strings.HasPrefix(key, "holdfast:once:")
	})
}

// grace is for how long a client expects a late request after the server has answered its release:
// a fourth of RetryTimeout.
const grace = 5 * time.Second / 4

// deadQueue reports whether the only key that is left is a queue that its clients cannot leave, and
// it expires: they are gone, or do not expect a request that came so long after a release. No release
// has come to it since.
func (w *world) deadQueue(s *server, keys []string) bool {
	if len(keys) > 1 || !strings.HasPrefix(keys[0], "holdfast:queue:") {
		return false
	}
	for _, entry := range s.texts("ZRANGE", keys[0], "0", "-1") {
		p, i := w.processOf(entry)
		if p == nil || p.live() && !p.links[i].closed() && !w.cameAgain(entry) {
			return false
		}
	}
	return s.number("PTTL", keys[0]) > 0
}

// cameAgain reports whether an entry of a queue is that of an owner whose request came when its
// client did not expect it any more.
func (w *world) cameAgain(entry string) bool {
	for _, x := range w.owners {
		if x.again && strings.HasPrefix(entry, x.id) {
			return true
		}
	}
	return false
}

// entries returns in words what the queues of the objects have.
func (w *world) entries(s *server) string {
	var b strings.Builder
	for _, o := range w.objects {
		if entries := s.queue(o); len(entries) > 0 {
			fmt.Fprintf(&b, "; %q wait for %s, for %d ms more", entries, o.name, s.number("PTTL", "holdfast:queue:{"+o.name+"}"))
		}
	}
	return b.String()
}

// judgeEnd judges what is left when no call is under way.
func (w *world) judgeEnd() {
	defer w.lock()()
	for _, n := range w.nets {
		if keys := w.left(n.master); len(keys) > 0 && !w.deadQueue(n.master, keys) {
			w.failf("P7", "keys are left: %q%s", keys, w.entries(n.master))
		}
		if n := len(n.master.texts("PUBSUB", "CHANNELS")); n > 0 {
			w.failf("P7", "%d channels are still subscribed", n)
		}
	}
	for _, o := range w.objects { // permits of lost leases are back at the next call
		free, over := w.net.master.number("GET", o.name), w.net.master.number("ZCARD", "{"+o.name+"}:timeout")
		if o.capacity > 0 && w.grants > 0 && (free+over != int64(o.capacity) || len(w.holds(o)) > 0) {
			w.failf("P6", "%d of %d permits are back, and %d are over", free, o.capacity, over)
		}
	}
}

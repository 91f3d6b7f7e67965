package soak_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Times that the judge of liveness grants.
const (
	poll   = 2 * time.Second // Options.PollInterval of all clients
	margin = 2 * time.Second // for requests, and for a machine that is busy

	// settle is how long after a fault a client may be without connections: the timeout of a
	// request, and a pause before the next attempt.
	settle = 3 * time.Second

	// recent is how long a client that is gone may delay others: its place in the queue is
	// not used before those ahead of it are served.
	recent = 20 * time.Second

	grant     = 3 * time.Second         // the length of a grant to a client in a queue
	fairGrant = 2500 * time.Millisecond // the same for a waiter of a fair lock
)

// A gone is a call whose process was killed, stopped or cut off while it waited.
type gone struct {
	at     int64
	client string // its process and client
}

// A live is what the judge of liveness looks up.
type live struct {
	*history
	holding map[string][]*call // by name, in the order in which they were granted
	waiting map[string][]*call // calls that wait for longer than a moment
	gone    map[string][]gone  // by name
	starved []span             // in which a process or a server had no processor, in order
}

// moment is a wait that is too short to be judged.
const moment = 200 * time.Millisecond

func newLive(h *history) *live {
	l := &live{history: h, gone: make(map[string][]gone), starved: h.starved()}
	l.holding = h.byName(func(c *call) bool { return c.got > 0 })
	for _, calls := range l.holding {
		slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.got, b.got) })
	}
	l.waiting = h.byName(func(c *call) bool { w := h.waits(c); return w.to-w.from > int64(moment) })
	for name, calls := range h.byName(func(*call) bool { return true }) {
		for _, c := range calls {
			for _, at := range l.goes(c) {
				l.gone[name] = append(l.gone[name], gone{at, fmt.Sprint(c.process, "/", c.want.Client)})
			}
		}
	}
	return l
}

// goes returns when the process of a call was killed, stopped or cut off while the call waited.
func (l *live) goes(c *call) (at []int64) {
	w := l.waits(c)
	if k := l.killed[c.process]; k > 0 && k == w.to {
		at = append(at, k)
	}
	for _, s := range l.stops[c.process] {
		if s.meets(w) {
			at = append(at, s.from)
		}
	}
	for _, f := range l.faults {
		if f.Process == workerOf(c.process) && (span{f.At, f.To}).meets(w) {
			at = append(at, f.At)
		}
	}
	return at
}

// starved returns when any process or server had no processor, although it was not stopped. The
// lock may have been granted to that process.
func (h *history) starved() []span {
	var all []span
	for process, spans := range h.stalls {
		for _, s := range spans {
			if !slices.ContainsFunc(h.stops[process], s.meets) {
				all = append(all, s)
			}
		}
	}
	whole := span{0, math.MaxInt64}
	return subtract(whole, subtract(whole, all)) // without overlaps
}

// lacked returns for how long a process or a server had no processor.
func (l *live) lacked(in span) (total time.Duration) {
	first, _ := slices.BinarySearchFunc(l.starved, in.from, func(s span, at int64) int { return cmp.Compare(s.to, at) })
	for _, s := range l.starved[first:] {
		if s.from >= in.to {
			break
		}
		total += time.Duration(min(s.to, in.to) - max(s.from, in.from))
	}
	return total
}

// judgeLiveness judges P5: a call does not wait for longer than the bound of its kind for what no
// process holds, while its client can reach the server. It returns the longest such time too.
func judgeLiveness(h *history) (found []finding, free time.Duration) {
	l := newLive(h)
	for _, c := range h.calls {
		w := h.waits(c)
		if w.to-w.from <= int64(moment) {
			continue
		}
		for _, s := range subtract(w, l.obstacles(c, w)) {
			took := time.Duration(s.to-s.from) - l.lacked(s)
			free = max(free, took)
			if bound := l.bound(c, s); took > bound {
				text := fmt.Sprintf("%v waits for %v, and could have it; the bound is %v", c, took.Round(time.Millisecond), bound)
				found = append(found, finding{"P5", c.want.Names[0], s.to, text})
			}
		}
	}
	return found, free
}

// excludes reports whether two calls cannot hold a lock together.
func excludes(a, b *call) bool { return !a.want.Shared || !b.want.Shared }

// quiet reports whether nothing was wrong with any process or server for a while.
func (l *live) quiet(in span) bool {
	in.from -= int64(recent)
	for _, at := range l.killed {
		if in.from < at && at < in.to {
			return false
		}
	}
	for _, stops := range l.stops {
		if slices.ContainsFunc(stops, in.meets) {
			return false
		}
	}
	return !slices.ContainsFunc(l.faults, func(f record) bool { return in.meets(span{f.At, f.To + 1}) })
}

// bound returns for how long a call may wait in a time in which it could have its locks.
func (l *live) bound(c *call, in span) time.Duration {
	if l.quiet(in) {
		return margin // messages arrive, and wake it at once
	}
	clients := make(map[string]bool)
	calls := 0
	for _, name := range c.want.Names {
		for _, g := range l.gone[name] {
			if in.from-int64(recent) < g.at && g.at < in.to {
				calls++
				clients[g.client] = true
			}
		}
	}
	queued := grant * time.Duration(len(clients))
	switch {
	case c.want.Kind == "fair":
		return time.Second + fairGrant*time.Duration(calls) + margin
	case len(c.want.Names) > 1:
		return 2*poll + grant + queued + margin
	case c.want.Capacity > 0:
		return poll + 2*grant + queued + margin
	}
	return poll + grant + queued + margin
}

// obstacles returns the times in which a call could not have its locks.
func (l *live) obstacles(c *call, w span) (spans []span) {
	for _, s := range l.stops[c.process] {
		spans = append(spans, span{s.from, s.to + int64(settle)})
	}
	for _, f := range l.faults {
		if f.Process == "" || f.Process == workerOf(c.process) {
			spans = append(spans, span{f.At, f.To + int64(settle)})
		}
	}
	for _, name := range c.want.Names {
		if c.want.Capacity > 0 {
			spans = append(spans, l.taken(c, name, w)...)
			continue
		}
		for _, o := range l.holding[name] {
			if o != c && excludes(o, c) {
				spans = append(spans, l.holds(o))
			}
		}
		for _, o := range l.waiting[name] {
			if c.want.Shared && !o.want.Shared {
				spans = append(spans, l.waits(o)) // writers that wait keep readers out at times
			}
		}
	}
	return slices.DeleteFunc(spans, func(s span) bool { return !s.meets(w) })
}

// taken returns the times in which too few permits are free, or an earlier call of the client
// waits.
func (l *live) taken(c *call, name string, w span) (spans []span) {
	type change struct {
		at      int64
		permits int
	}
	var changes []change
	for _, o := range l.holding[name] {
		if s := l.holds(o); o != c && s.meets(w) {
			changes = append(changes, change{s.from, o.want.Permits}, change{s.to, -o.want.Permits})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	used := 0
	for i, ch := range changes {
		used += ch.permits
		if c.want.Capacity-used < c.want.Permits {
			next := w.to
			if i+1 < len(changes) {
				next = changes[i+1].at
			}
			spans = append(spans, span{ch.at, next})
		}
	}
	for _, o := range l.waiting[name] {
		if o != c && o.process == c.process && o.want.Client == c.want.Client && o.began < c.began+int64(moment) {
			spans = append(spans, l.waits(o))
		}
	}
	return spans
}

// subtract returns what is left of a time without others.
func subtract(whole span, spans []span) (left []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	at := whole.from
	for _, s := range spans {
		if s.from > at {
			left = append(left, span{at, min(s.from, whole.to)})
		}
		at = max(at, s.to)
		if at >= whole.to {
			return left
		}
	}
	if at < whole.to {
		left = append(left, span{at, whole.to})
	}
	return left
}

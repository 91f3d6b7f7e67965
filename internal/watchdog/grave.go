package watchdog

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A grave is a hold that nobody counts on any more and that may still exist at
// the server: the acquire of a caller that gave up, a release without an
// answer. It is freed again and again until the server says so, or until it
// has expired there anyway.
type grave struct {
	node  string
	free  driver.Call
	due   time.Duration
	until time.Duration
	again time.Duration // "not held" counts only from then on: the acquire may still be on its way
}

// Bury frees what free releases, from the given moment on and until it would
// have expired. An answer that nothing is held is believed from again on.
// All moments are as of clock.Now.
func (w *Watchdog) Bury(free driver.Call, from, again, until time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	g := &grave{node: w.d.Place(free.Keys[0]).Node, free: free, due: from, again: again, until: until}
	w.graves[g] = struct{}{}
	w.rouse(from)
}

// Graves returns the calls that would free what is buried now.
func (w *Watchdog) Graves() []driver.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var calls []driver.Call
	for g := range w.graves {
		calls = append(calls, g.free)
	}
	return calls
}

func (w *Watchdog) bury(gs []*grave) {
	if len(gs) == 0 {
		return
	}
	calls := make([]driver.Call, len(gs))
	for i, g := range gs {
		calls[i] = g.free
	}
	ctx, cancel := context.WithTimeout(w.life, w.every)
	results := w.d.DoMany(ctx, calls)
	cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := clock.Now()
	for i, g := range gs {
		r := results[i]
		switch {
		case r.Err == nil && (r.Reply.Int > 0 || now >= g.again):
			delete(w.graves, g)
		case now >= g.until || driver.ClassOf(r.Err) == driver.Fatal:
			delete(w.graves, g)
		case r.Err == nil:
			g.due = g.again
		default:
			g.due = now + w.retry()
		}
	}
}

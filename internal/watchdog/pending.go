package watchdog

import (
	"container/heap"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A pendingRelease is a hold that nobody counts on any more and that may still exist at
// the server: the acquire of a caller that gave up, a release without an
// answer. It is freed again and again until the server says so, or until it
// has expired there anyway.
type pendingRelease struct {
	node  string
	free  driver.Call
	due   time.Duration
	until time.Duration
	again time.Duration // an answer counts only from then on: a request may still be on its way
	rest  func()        // called when the server has said so; nil: nobody wants to know
	tries int           // that the server has refused
}

// pendingHeap is a heap of pending releases, the next one first.
type pendingHeap []*pendingRelease

func (h pendingHeap) Len() int           { return len(h) }
func (h pendingHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h pendingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *pendingHeap) Push(x any)        { *h = append(*h, x.(*pendingRelease)) }

func (h *pendingHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return g
}

// ReleaseLater frees what free releases, from the given moment on and until it would
// have expired. An answer counts from again on. All moments are as of
// clock.Now. Once the server has freed it, rest is called, unless that is nil.
// It reports whether the watchdog will do that: a closed one will not.
func (w *Watchdog) ReleaseLater(free driver.Call, from, again, until time.Duration, rest func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	heap.Push(&w.pending, &pendingRelease{node: w.d.Place(free.Keys[0]).Node, free: free, due: from, again: again, until: until, rest: rest})
	w.rouse(from)
	return true
}

// DrainPending takes all pending away and returns the calls that would free what is
// in them.
func (w *Watchdog) DrainPending() []driver.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var calls []driver.Call
	for _, g := range w.pending {
		calls = append(calls, g.free)
	}
	for _, gs := range w.behind {
		for _, g := range gs {
			calls = append(calls, g.free)
		}
	}
	w.pending, w.behind = nil, make(map[queueKey][]*pendingRelease)
	return calls
}

func (w *Watchdog) release(gs []*pendingRelease) {
	calls := make([]driver.Call, len(gs))
	for i, g := range gs {
		calls[i] = g.free
	}
	ctx, cancel := context.WithTimeout(w.life, w.every)
	results := w.d.DoMany(ctx, calls)
	cancel()
	now := clock.Now()
	for i, g := range gs {
		if g.rest != nil && results[i].Err == nil && now >= g.again {
			g.rest()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, g := range gs {
		switch err := results[i].Err; {
		case err == nil && now >= g.again || now >= g.until || driver.CodeOf(err) == "WRONGTYPE":
			continue // at rest, or the key is no lock any more
		case err == nil:
			g.due = g.again
		case driver.ClassOf(err) == driver.Fatal: // until somebody mends something there
			g.tries++
			g.due = now + w.retry()<<min(2*g.tries, 6)
		default:
			g.due = now + w.retry()
		}
		heap.Push(&w.pending, g)
	}
}

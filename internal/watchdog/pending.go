package watchdog

import (
	"container/heap"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A pendingRelease is a hold that is no longer used and may still exist at the
// server. It comes from an acquisition whose caller gave up, or from a release
// without an answer. The watchdog releases it until the server confirms that, or
// until the lease has expired at the server.
type pendingRelease struct {
	node       string // where its key is
	free       driver.Call
	due        time.Duration // when to send it next
	until      time.Duration // when the lease has expired at the server
	countsFrom time.Duration // earlier answers are not final, because the request to undo may still arrive
	done       func()        // called when the server has confirmed the release; may be nil
	tries      int           // how often the server has refused it
}

// pendingHeap is a heap of pending releases, ordered by the time they are due.
type pendingHeap []*pendingRelease

func (h pendingHeap) Len() int           { return len(h) }
func (h pendingHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h pendingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *pendingHeap) Push(x any)        { *h = append(*h, x.(*pendingRelease)) }

func (h *pendingHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return p
}

// ReleaseLater sends free, first at the time from, and again until the server
// confirms it or until the time until. A confirmation before countsFrom is not final:
// the call is then sent once more. All times are values of clock.Now. When the
// confirmation is final, the watchdog calls done, unless done is nil.
// ReleaseLater returns false if the watchdog is closed. It then does nothing.
func (w *Watchdog) ReleaseLater(free driver.Call, from, countsFrom, until time.Duration, done func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	heap.Push(&w.pending, &pendingRelease{node: w.d.Place(free.Keys[0]).Node, free: free, due: from, countsFrom: countsFrom, until: until, done: done})
	w.wakeBy(from)
	return true
}

// DrainPending removes all pending releases and returns their calls.
func (w *Watchdog) DrainPending() []driver.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var calls []driver.Call
	for _, p := range w.pending {
		calls = append(calls, p.free)
	}
	for _, ps := range w.queued {
		for _, p := range ps {
			calls = append(calls, p.free)
		}
	}
	w.pending, w.queued = nil, make(map[queueKey][]*pendingRelease)
	return calls
}

// release sends pending releases of one node. Those that are not final become
// pending again.
func (w *Watchdog) release(ps []*pendingRelease) {
	calls := make([]driver.Call, len(ps))
	for i, p := range ps {
		calls[i] = p.free
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.every)
	results := w.d.DoMany(ctx, calls)
	cancel()
	now := clock.Now()
	for i, p := range ps {
		if p.done != nil && results[i].Err == nil && now >= p.countsFrom {
			p.done()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range ps {
		switch err := results[i].Err; {
		case err == nil && now >= p.countsFrom || now >= p.until || driver.CodeOf(err) == "WRONGTYPE":
			continue // released, expired, or the key is no longer a lock
		case err == nil:
			p.due = p.countsFrom
		case driver.ClassOf(err) == driver.Fatal: // the server refuses until an operator changes something
			p.tries++
			p.due = now + retry(w.every)<<min(2*p.tries, 6)
		default:
			p.due = now + retry(w.every)
		}
		heap.Push(&w.pending, p)
	}
}

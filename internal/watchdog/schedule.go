package watchdog

import (
	"container/heap"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// reschedule moves a lease to its new place in the heap. The caller holds w.mu.
func (w *Watchdog) reschedule(c *Watched) {
	c.schedule()
	heap.Fix(&w.guarded, c.state.index)
	w.wakeBy(c.state.at)
}

// wakeBy makes sure that run runs, and wakes up at that time or earlier. The caller holds w.mu.
func (w *Watchdog) wakeBy(at time.Duration) {
	if w.closed {
		return
	}
	if !w.running {
		w.running = true
		w.wg.Go(w.run)
		return
	}
	if at < w.wakesAt {
		w.wakesAt = at // one wake-up is enough
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// run is the goroutine that watches the clock. It never waits for a server.
func (w *Watchdog) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
		timer.Reset(w.runDue())
	}
}

// runDue does what is due and returns how long to sleep.
func (w *Watchdog) runDue() time.Duration {
	w.mu.Lock()
	now := clock.Now()
	ended := w.takeEnded(now)
	if !w.closed {
		w.verifySuspects()
		w.sendDue(now)
	}
	next := never
	if len(w.guarded) > 0 {
		next = w.guarded[0].state.at
	}
	sleep := never
	w.wakesAt = never
	if next != never || w.active {
		// After a new lease, the timer stays on even if nothing is due. A client that locks and
		// releases all the time then does not pay a wake-up for each lock.
		sleep = min(max(next-now, 0), maxSleep)
		w.wakesAt = now + sleep
	}
	w.active = false
	w.mu.Unlock()
	for _, c := range ended {
		if c.state.unacked && c.state.renewal > 0 {
			c.Handler.Lost(Unacked)
		} else {
			c.Handler.Lost(Expired)
		}
	}
	for _, c := range ended {
		if c.state.renewal > 0 {
			w.log.Warn("lease lost: no renewal was confirmed in time", "name", c.Ref.Called(), "owner", c.Ref.Owner)
		} else {
			w.log.Info("lease expired before it was released", "name", c.Ref.Called(), "owner", c.Ref.Owner)
		}
	}
	return sleep
}

// takeEnded stops watching leases that have ended, and returns them. The caller holds w.mu.
func (w *Watchdog) takeEnded(now time.Duration) []*Watched {
	var ended, later []*Watched
	for len(w.guarded) > 0 && w.guarded[0].state.at <= now {
		c := w.guarded[0]
		if c.warning() <= now {
			w.drop(c)
			ended = append(ended, c)
			continue
		}
		heap.Remove(&w.guarded, 0) // only due for renewal: goes back below
		later = append(later, c)
	}
	for _, c := range later {
		heap.Push(&w.guarded, c)
	}
	return ended
}

package engine

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Counts are what an engine has done since it was made.
type Counts struct {
	Grants   atomic.Uint64 // by the server
	Handoffs atomic.Uint64
	Losses   atomic.Uint64

	waiting atomic.Int64 // acquisitions that wait for the server
}

// Stats describe an engine at one moment.
type Stats struct {
	watchdog.Stats
	Pending       int // owners that are not settled yet
	Waiting       int // calls that wait
	Subscriptions int // channels
	Live          int // channels whose messages arrive
	Outages       int // servers that are unavailable, if there is a callback for them
	Holds         []HoldStats
}

// HoldStats describe a hold.
type HoldStats struct {
	User      watchdog.LossHandler // nil: it is being passed on or released
	Owner     string
	Granted   time.Duration // when
	Confirmed time.Duration // when the last request was sent that the server has confirmed
	Deadline  time.Duration
}

// Counts returns what the engine has done.
func (e *Engine) Counts() *Counts { return &e.counts }

// Stats returns the state of the engine.
func (e *Engine) Stats() Stats {
	var s Stats
	var held []watchdog.HeldStats
	s.Stats, held = e.watchdog.Stats()
	s.Subscriptions, s.Live = e.hub.Count()
	s.Pending = e.settler.Pending()
	s.Waiting = int(e.counts.waiting.Load())
	s.Outages = int(e.outages.n.Load())
	e.gates.mu.Lock()
	for _, g := range e.gates.byKey {
		g.mu.Lock()
		s.Waiting += g.length
		g.mu.Unlock()
	}
	e.gates.mu.Unlock()
	for _, w := range held {
		h := w.Lease.Handler.(*Hold)
		h.mu.Lock()
		user := h.users.first
		h.mu.Unlock()
		s.Holds = append(s.Holds, HoldStats{user, h.owner, h.origin.at, w.Confirmed, h.Deadline()})
	}
	return s
}

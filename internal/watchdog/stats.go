package watchdog

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// Stats describe a watchdog at one moment.
type Stats struct {
	Renewals       uint64 // leases that were renewed or verified, in total
	FailedRenewals uint64 // leases whose renewal failed, in total

	// Oldest is the last confirmation of the renewed lease whose last confirmation is
	// the oldest; zero: no lease is renewed.
	Oldest time.Duration

	// Overdue is the largest share, of all leases, of the time to renew them; see
	// [Watchdog.overdue].
	Overdue float64
}

// HeldStats describe a lease.
type HeldStats struct {
	Lease     *Watched
	Confirmed time.Duration // when the last request was sent that the server has confirmed
}

// Stats returns the state of the watchdog and of its leases.
func (w *Watchdog) Stats() (Stats, []HeldStats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	now := clock.Now()
	held := make([]HeldStats, len(w.guarded))
	for i, c := range w.guarded {
		held[i] = HeldStats{c, c.state.confirmed}
		if c.state.renewal > 0 && (s.Oldest == 0 || c.state.confirmed < s.Oldest) {
			s.Oldest = c.state.confirmed
		}
		s.Overdue = max(s.Overdue, w.overdue(c, now))
	}
	return s, held
}

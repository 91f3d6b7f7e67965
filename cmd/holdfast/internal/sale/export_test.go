package sale

import "time"

// SetCloseTimeout sets the time for a shop to exit.
func (m *Market) SetCloseTimeout(d time.Duration) { m.closeTimeout = d }

// WithTimes returns the result with these latencies of orders.
func (r Result) WithTimes(times ...time.Duration) Result {
	r.times = times
	return r
}

package sale

import "time"

// WithTimes returns the result with these latencies of orders.
func (r Result) WithTimes(times ...time.Duration) Result {
	r.times = times
	return r
}

package redistest

import "time"

// Outage begins a fault and ends it after d. The returned channel is closed when the fault has
// ended.
func Outage(d time.Duration, begin, end func()) (over <-chan struct{}) {
	done := make(chan struct{})
	begin()
	time.AfterFunc(d, func() {
		defer close(done)
		end()
	})
	return done
}

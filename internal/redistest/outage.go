package redistest

import "time"

// Outage begins a fault and ends it after d. It returns a channel that is closed when the fault
// has ended. If end is nil, the channel is closed after d, and the caller ends the fault.
func Outage(d time.Duration, begin, end func()) (over <-chan struct{}) {
	done := make(chan struct{})
	begin()
	time.AfterFunc(d, func() {
		defer close(done)
		if end != nil {
			end()
		}
	})
	return done
}

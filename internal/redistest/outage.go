package redistest

import (
	"context"
	"time"
)

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

// CancelledAfter returns a context that is canceled after d, and has no deadline. A call may then
// be anywhere.
func CancelledAfter(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(d, cancel)
	return ctx
}

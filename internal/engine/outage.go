package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// An outage is a series of failed requests.
type outage struct {
	err   error         // of the last request; nil: there is no outage
	since time.Duration // when the first failed request was sent
	n     int           // how many requests have failed
}

// note adds the failure of a request sent at that time, and returns how long the outage
// has lasted.
func (o *outage) note(err error, sent time.Duration) time.Duration {
	if o.err == nil {
		o.since = sent
		o.n = 0
	}
	if !errors.Is(o.err, ErrNotReplicated) || driver.ClassOf(err) != driver.Ambiguous { // a request without an answer says less
		o.err = err
	}
	o.n++
	return clock.Early() - o.since
}

// over ends the outage.
func (o *outage) over() { o.err = nil }

// pause returns how long to wait before the next attempt: 5 ms, doubling up to half a
// second, with jitter.
func (o *outage) pause() time.Duration {
	d := min(5*time.Millisecond<<min(o.n-1, 10), 500*time.Millisecond)
	return d/2 + clock.Random(d/2)
}

// error returns the error of a call that the outage has ended.
func (o *outage) error() error { return fmt.Errorf("%w: %w", ErrUnavailable, o.err) }

// refusedError returns the error of a request that the server refuses until an operator
// or the caller changes something.
func refusedError(err error) error {
	if errors.Is(err, driver.ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w%s", ErrRefused, err, refusalHints[driver.CodeOf(err)])
}

// gaveUp returns the error of a wait that err has ended. The ttl is what the holder has
// left; zero: the lock is not known to be held.
func gaveUp(err error, out *outage, ttl time.Duration) error {
	switch {
	case errors.Is(err, ErrClosed):
		return err
	case out.err != nil:
		return fmt.Errorf("%w (%w)", out.error(), err)
	case ttl == 0:
		return err // no answer has said that the lock is held
	}
	return &Busy{TTL: ttl, Err: err}
}

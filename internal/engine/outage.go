package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// An outage is a series of failed requests.
type outage struct {
	err   error // the last one; nil: the server works
	since time.Duration
	n     int
}

// note adds a failure of a request sent at that moment, and returns how long
// the outage has lasted.
func (o *outage) note(err error, sent time.Duration) time.Duration {
	if o.err == nil {
		o.since = sent
		o.n = 0
	}
	if !errors.Is(o.err, ErrNotReplicated) || driver.ClassOf(err) != driver.Ambiguous { // which says less
		o.err = err
	}
	o.n++
	return clock.Early() - o.since
}

func (o *outage) over() { o.err = nil }

// pause is how long to wait before the next attempt: 5 ms, doubling up to half
// a second, with jitter.
func (o *outage) pause() time.Duration {
	d := min(5*time.Millisecond<<min(o.n-1, 10), 500*time.Millisecond)
	return d/2 + rand.N(d/2)
}

func (o *outage) error() error { return fmt.Errorf("%w: %w", ErrUnavailable, o.err) }

// refusedError returns the error of a request that the server will not serve until
// something is changed.
func refusedError(err error) error {
	if errors.Is(err, driver.ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w%s", ErrRefused, err, refusalHints[driver.CodeOf(err)])
}

// gaveUp is the error of a wait that err has ended.
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

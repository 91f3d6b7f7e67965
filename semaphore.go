package holdfast

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Semaphore is a named number of permits that processes acquire and release. It
// shares its permits with RSemaphore in Redisson.
//
// Use a [LeasedSemaphore] instead, unless Java peers use this one. A Semaphore does not
// record the holders of its permits. The permits of a killed process are lost until a
// process adds new ones, and a program can release more permits than it has acquired.
type Semaphore struct {
	named
	one *script.Semaphore // a request for one permit
}

const semaphoreKind = "semaphore"

// Semaphore returns the semaphore with the given name, see [Client.Mutex].
func (c *Client) Semaphore(name string, opts ...SemaphoreOption) *Semaphore {
	s := &Semaphore{named: newNamed(c, semaphoreKind, name, with(settings{}, opts))}
	s.one = script.NewSemaphore(s.name, 1)
	s.creates = s.declare()
	return s
}

func (s *Semaphore) wire(n int) *script.Semaphore {
	if s.one == nil {
		return script.NewSemaphore(s.name, n) // the call fails
	}
	return s.one.For(n)
}

// TrySet sets the number of permits if the semaphore does not exist yet, and reports
// whether it did. To change an existing number, use [Semaphore.Add]. If ttl is not
// zero, the semaphore is deleted after ttl.
func (s *Semaphore) TrySet(ctx context.Context, permits int, ttl time.Duration) (bool, error) {
	return trySet(ctx, &s.named, permits, ttl)
}

// Acquire waits until it can acquire all of the given permits together, or until ctx is
// done. Zero permits are always available. The errors are those of [Mutex.Lock].
// Permits that are granted after ctx is done are released.
//
// If the semaphore does not exist, Acquire waits for it, as Redisson does, and logs a
// warning every ten seconds. See [WithPermits].
//
// The waiters of one client are served in the order of arrival, regardless of how many
// permits they request; there is no order between clients. A call for one permit waits
// behind a call for two, even while one permit is free, unlike with Redisson. So a
// program can deadlock if it releases permits only after a waiting call has returned.
// To avoid this, release the permits first, use another [Client], or use TryAcquire
// with [Wait].
func (s *Semaphore) Acquire(ctx context.Context, permits int, opts ...WaitOption) error {
	return s.take(ctx, "acquire", permits, engine.Forever, opts)
}

// TryAcquire acquires the given number of permits if they are free and no call of this
// client waits for permits. Otherwise it returns [ErrNotAcquired] at once, or after
// [Wait].
func (s *Semaphore) TryAcquire(ctx context.Context, permits int, opts ...WaitOption) error {
	return s.take(ctx, "try acquire", permits, 0, opts)
}

func (s *Semaphore) take(ctx context.Context, op string, permits int, wait time.Duration, opts []WaitOption) error {
	set := with(s.set, opts)
	set.fail(s.ready(ctx))
	if err := checkCount("the number of permits", permits, 0); err != nil {
		set.fail(err)
	}
	set.fail(set.enough(permits))
	if set.err != nil {
		return s.fail(op, set.err)
	}
	if permits == 0 {
		return nil
	}
	wire, r := s.wire(permits), set.request(wait)
	seen := s.observe(ctx, s.client, wire)
	r.Report, r.Caller, r.Declare = seen.notes(), (*taker)(&s.named), s.creates
	_, err := s.client.engine.Take(ctx, wire, r)
	if err != nil {
		err = because(ctx, s.fail(op, err))
	}
	s.client.taken(seen, err)
	return err
}

// Release releases the given number of permits. It ignores the end of ctx. If the
// server does not answer within about two seconds, Release returns [ErrUnavailable] and
// keeps trying in the background. The permits are released once, even if the request
// has to be sent several times. Release creates the semaphore if it does not exist,
// unless [WithPermits] declares its number.
func (s *Semaphore) Release(ctx context.Context, permits int) error {
	_, err := s.release(ctx, permits, s.set.permits > 0)
	return err
}

// ReleaseIfExists is like Release, but does not create a semaphore. It reports whether
// the semaphore exists.
func (s *Semaphore) ReleaseIfExists(ctx context.Context, permits int) (bool, error) {
	return s.release(ctx, permits, true)
}

func (s *Semaphore) release(ctx context.Context, permits int, existing bool) (bool, error) {
	err := s.set.err
	if err == nil {
		err = checkCount("the number of permits", permits, 0)
	}
	if err != nil {
		return false, s.fail("release", err)
	}
	if permits == 0 && !existing {
		return true, nil
	}
	wire := s.wire(permits)
	reply, err := s.count(ctx, "release",
		func(request string) driver.Call { return wire.Release(request, existing) },
		// A late retry must not create a semaphore that the server has lost.
		func(request string) driver.Call { return wire.Release(request, true) })
	if reply > 0 {
		s.client.engine.Yield(wire, reply-1)
	}
	s.observeRelease(ctx, permits, err)
	return reply > 0, err
}

// Add adds permits. A negative number removes permits, even if they are not free:
// [Semaphore.Available] is then negative until they are released. Add creates the
// semaphore if it does not exist.
func (s *Semaphore) Add(ctx context.Context, permits int) error {
	return addPermits(ctx, &s.named, permits)
}

// Drain acquires all free permits and returns their number.
func (s *Semaphore) Drain(ctx context.Context) (int, error) {
	return s.count(ctx, "drain", s.wire(0).Drain, nil)
}

// Available returns how many permits are free.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	var n int
	err := s.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		n, err = s.wire(0).Available(ctx, s.client.driver)
		return err
	})
	return n, err
}

// trySet sets the number of permits of a semaphore that does not exist.
func trySet(ctx context.Context, o *named, permits int, ttl time.Duration) (bool, error) {
	err := checkCount("the number of permits", permits, 0)
	if err == nil {
		err = access.CheckTTL(ttl)
	}
	if err != nil {
		return false, o.fail("set", err)
	}
	return o.decide(ctx, "set", func(request string) driver.Call {
		return script.NewSemaphore(o.name, permits).Set(request, ttl)
	})
}

// addPermits changes the number of free permits.
func addPermits(ctx context.Context, o *named, permits int) error {
	if err := checkCount("the number of permits", permits, -math.MaxInt32); err != nil {
		return o.fail("add", err)
	}
	_, err := o.count(ctx, "add", func(request string) driver.Call {
		return script.NewSemaphore(o.name, permits).Release(request, false)
	}, nil)
	return err
}

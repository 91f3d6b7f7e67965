package holdfast

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Semaphore is a named number of permits that processes take and give back.
// It is what Redisson calls RSemaphore, and shares its permits with it.
//
// Use a [LeasedSemaphore] instead, unless Java peers use this one: here nobody
// knows who has a permit, so those of a process that is killed are gone until
// somebody adds as many, and nothing stops a program from giving back more than
// it took.
//
// Inside a process, permits go to those who came first, also to those who want
// many, also to more than there are; between processes there is no order. A
// Semaphore is a name and no more; it is safe for concurrent use.
// [Client.Semaphore] makes one.
type Semaphore struct{ named }

// Semaphore returns the semaphore with that name, see [Client.Mutex] for what
// that may be. Of the options, [Wait] and [Poll] apply to it.
func (c *Client) Semaphore(name string, opts ...Option) *Semaphore {
	return &Semaphore{newNamed(c, "semaphore", name, opts).leaseless()}
}

func (s *Semaphore) wire(n int) *script.Semaphore { return script.NewSemaphore(s.name, n) }

// TrySet sets the number of permits if the semaphore does not exist yet, and
// reports whether it did. An existing semaphore keeps its number, even if that
// differs: change it with [Semaphore.Add]. With a ttl other than zero the
// semaphore is gone when that is over.
func (s *Semaphore) TrySet(ctx context.Context, permits int, ttl time.Duration) (bool, error) {
	return trySet(ctx, &s.named, permits, ttl)
}

// Acquire waits until it has taken that many permits, all at once, or until ctx
// is done. Zero permits are always there. The error is as that of [Mutex.Lock];
// what was granted too late for ctx is given back.
//
// Acquire also waits for a semaphore that does not exist, as Redisson does: no
// process has called TrySet, or the server has lost its data. It then logs a
// warning, and again every ten seconds.
//
// Waiters of one client are served in the order in which they came, whatever
// they ask for. A call for one permit waits behind a call for two, also while
// one permit is free. A program that releases permits only after such a call
// returns can therefore deadlock where Redisson, which lets it overtake, does
// not: release first, use another [Client], or use TryAcquire with a wait.
func (s *Semaphore) Acquire(ctx context.Context, permits int, opts ...Option) error {
	return s.take(ctx, "acquire", permits, engine.Forever, opts)
}

// TryAcquire takes that many permits if they are free and nobody in this
// process waits for some, and otherwise returns [ErrNotAcquired] at once, or
// after [Wait].
func (s *Semaphore) TryAcquire(ctx context.Context, permits int, opts ...Option) error {
	return s.take(ctx, "try acquire", permits, 0, opts)
}

func (s *Semaphore) take(ctx context.Context, op string, permits int, wait time.Duration, opts []Option) error {
	set := s.set.with(opts)
	set.fail(s.ready(ctx))
	set.leaseless(s.kind)
	if err := checkCount("the number of permits", permits, 0); err != nil {
		set.fail(err)
	}
	if set.err != nil {
		return s.fail(op, set.err)
	}
	if permits == 0 {
		return nil
	}
	if _, err := s.client.engine.Take(ctx, s.wire(permits), set.request(wait)); err != nil {
		return s.fail(op, err)
	}
	return nil
}

// Release gives back that many permits. Nothing in ctx stops it: when the
// server does not answer within a second or two it returns [ErrUnavailable] and
// goes on trying in the background. The permits are given back once, however
// often that has to be tried. A semaphore that does not exist is created.
func (s *Semaphore) Release(ctx context.Context, permits int) error {
	_, err := s.release(ctx, permits, false)
	return err
}

// ReleaseIfExists is Release, but does not create a semaphore that does not
// exist. It reports whether it does.
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
		// What is late must not make up a semaphore that the server has forgotten.
		func(request string) driver.Call { return wire.Release(request, true) })
	if reply > 0 {
		s.client.engine.Yield(wire, reply-1)
	}
	return reply > 0, err
}

// Add adds permits, or takes some away if permits is negative: also such that
// are not free, in which case [Semaphore.Available] is negative until they come
// back. It creates a semaphore that does not exist.
func (s *Semaphore) Add(ctx context.Context, permits int) error {
	return addPermits(ctx, &s.named, permits)
}

// Drain takes all free permits and returns how many there were.
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

// Object returns the semaphore as an object, to delete it or let it end.
func (s *Semaphore) Object() *Object { return s.asObject() }

// trySet sets the number of permits of a semaphore that does not exist.
func trySet(ctx context.Context, o *named, permits int, ttl time.Duration) (bool, error) {
	err := checkCount("the number of permits", permits, 0)
	if err == nil {
		err = checkTTL(ttl)
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

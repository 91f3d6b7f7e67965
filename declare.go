package holdfast

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// WithPermits declares how many permits a semaphore has. A call that takes permits then
// creates the semaphore if it does not exist, so no process has to call TrySet, even
// after the server has lost its data. A call for more permits fails with [ErrInvalid].
//
// If the semaphore has another number, the client that comes last decides: its first
// call that takes permits changes the total of a LeasedSemaphore, as
// [LeasedSemaphore.Set] does, and logs it. Later calls of the client do not change it,
// so an explicit Set stays in effect until a process is started. A client remembers
// this for 10,000 names; beyond that, it may change a number again.
//
// A [Semaphore] does not know its total, so an existing one keeps its number: change it
// with [Semaphore.Add]. Permits that a program took before the server lost its data,
// and releases afterwards, are added to the new ones.
func WithPermits(n int) SemaphoreOption {
	return option(func(s *settings) {
		if err := checkCount("WithPermits", n, 1); err != nil {
			s.fail(err)
		}
		s.permits = n
	})
}

// WithRate declares the rate of a rate limiter. A call that takes permits then sets the
// rate if there is none, so no process has to call TrySetRate, even after the server
// has lost its data or Rate.KeepAlive has passed.
//
// If the limiter has another rate, the client that comes last decides: its first call
// that takes permits changes the rate, as [RateLimiter.UpdateRate] does, and logs it.
// Later calls of the client do not change it, see [WithPermits].
func WithRate(r Rate) RateOption {
	return option(func(s *settings) {
		if err := r.check(); err != nil {
			s.fail(err)
		}
		s.rate = r
	})
}

// enough returns an error if a call wants more permits than are declared. It would wait
// forever.
func (s *settings) enough(permits int) error {
	if s.permits != 0 && permits > s.permits {
		return invalid("%d permits are more than the %d that WithPermits declares: raise that number, or request fewer", permits, s.permits)
	}
	return nil
}

// maxDeclared is how many declarations a client remembers.
const maxDeclared = 10_000

// A declaration is an object, and what was declared for it.
type declaration struct {
	kind, name string
	permits    int
	rate       Rate
}

// declarations are those that a client has carried out.
type declarations struct {
	mu   sync.Mutex
	done map[declaration]bool
}

func (d *declarations) has(c declaration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done[c]
}

func (d *declarations) add(c declaration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil || len(d.done) >= maxDeclared {
		d.done = make(map[declaration]bool)
	}
	d.done[c] = true
}

// declare returns the function that carries out what the options declare, or nil if they
// declare nothing. The call create creates the object if it does not exist. The first
// time, update changes an object that exists.
func (o *named) declare(create func(request string) driver.Call, update func(context.Context) error) func(context.Context, bool) error {
	d := declaration{o.kind, o.name, o.set.permits, o.set.rate}
	if d.permits == 0 && d.rate == (Rate{}) {
		return nil
	}
	return func(ctx context.Context, missing bool) error {
		known := o.client.declared.has(d)
		if known && !missing {
			return nil
		}
		r, err := o.client.engine.Once(ctx, create, nil)
		if err != nil {
			return err
		}
		created, err := script.DecodeInt(r)
		if err == nil && created == 0 && !known {
			err = update(ctx)
		}
		if err == nil {
			o.client.declared.add(d)
		}
		return err
	}
}

// declare is nil if no number of permits is declared.
func (s *LeasedSemaphore) declare() func(context.Context, bool) error {
	n := s.set.permits
	return s.named.declare(
		func(request string) driver.Call { return script.NewSemaphore(s.name, n).Set(request, 0) },
		func(ctx context.Context) error {
			state, err := s.State(ctx)
			if total := state.Available + state.Taken; err == nil && total != n {
				if err = s.Set(ctx, n); err == nil {
					s.client.options.Logger.Warn("the number of permits was changed to the declared one", "name", s.name, "was", total, "is", n)
				}
			}
			return bare(err)
		})
}

// declare is nil if no number of permits is declared.
func (s *Semaphore) declare() func(context.Context, bool) error {
	return s.named.declare(
		func(request string) driver.Call { return script.NewSemaphore(s.name, s.set.permits).Set(request, 0) },
		func(context.Context) error { return nil })
}

// declare is nil if no rate is declared.
func (l *RateLimiter) declare() func(context.Context, bool) error {
	return l.named.declare(
		func(request string) driver.Call { return l.set.rate.call(l.wire(0), request, script.WhenNew) },
		func(ctx context.Context) error {
			was, err := l.Rate(ctx)
			if err == nil && was != l.set.rate {
				if _, err = l.UpdateRate(ctx, l.set.rate); err == nil {
					l.client.options.Logger.Warn("the rate was changed to the declared one", "name", l.name, "was", was, "is", l.set.rate)
				}
			}
			if errors.Is(err, ErrNotFound) { // deleted at this moment
				err = nil
			}
			return bare(err)
		})
}

// bare returns the error without the operation and the object, which the caller adds.
func bare(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

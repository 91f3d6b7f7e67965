package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A RateLimiter is a named number of permits per interval that processes share.
// It is what Redisson calls RRateLimiter, and shares its permits with it; its
// methods have the names of those in golang.org/x/time/rate.
//
// In no span of time as long as the interval are more permits given than the
// rate says, by the server's clock: clocks of clients play no part. Inside of it
// they are not spread: ten per second may be given at once, and then none for a
// second; for one every tenth of a second, say so. Whoever has to wait is given a
// time at once, after those who came before, from whatever process, and waits for
// it without asking again. The limit is on when permits are given: a program
// that is held up between that and its request may send it together with those
// of the next interval.
//
// A RateLimiter is a name and no more; it is safe for concurrent use.
// [Client.RateLimiter] makes one.
type RateLimiter struct{ named }

// RateLimiter returns the rate limiter with that name, see [Client.Mutex] for
// what that may be. It needs a rate, see
// [RateLimiter.TrySetRate]. Of the options, [Wait] applies to it.
func (c *Client) RateLimiter(name string, opts ...Option) *RateLimiter {
	return &RateLimiter{newNamed(c, "rate limiter", name, opts).leaseless()}
}

func (l *RateLimiter) wire(n int) *script.RateLimiter {
	return script.NewRateLimiter(l.name, l.client.ID(), n)
}

// A Rate is what a [RateLimiter] allows.
type Rate struct {
	Permits   int           // that many
	Per       time.Duration // in any span of that length
	PerClient bool          // for each [Client], which mostly is a process, not for all together
	KeepAlive time.Duration // an unused limiter is deleted after this long, with its rate; zero: never. See RateLimiter.SetRate
}

func (r Rate) check() error {
	if err := checkCount("Rate.Permits", r.Permits, 1); err != nil {
		return err
	}
	switch {
	case r.Per < time.Millisecond || r.Per > maxLease || r.Per%time.Millisecond != 0:
		return invalid("Rate.Per is %v: choose whole milliseconds, between 1ms and %v", r.Per, maxLease)
	case r.KeepAlive != 0 && (r.KeepAlive < r.Per || r.KeepAlive > maxLease):
		return invalid("Rate.KeepAlive is %v: choose at least Rate.Per (%v), or 0 to keep the limiter forever", r.KeepAlive, r.Per)
	}
	return nil
}

// TrySetRate sets the rate if there is none, and reports whether it did: not if
// there is one, be it another. Every process may call it when it starts. To bring
// a new rate into use, follow it with [RateLimiter.UpdateRate], which keeps what
// was taken, or use [RateLimiter.SetRate], which forgets it.
func (l *RateLimiter) TrySetRate(ctx context.Context, r Rate) (bool, error) {
	return l.setRate(ctx, r, script.WhenNew)
}

// SetRate sets the rate, and forgets what was taken. With Rate.KeepAlive, the
// limiter expires that long after its last use, or Rate.Per and a second after
// the last permit that was given, whichever is later: what was given counts for
// an interval, so the limiter must not be forgotten before. Of a limiter per client it
// forgets what this one took.
func (l *RateLimiter) SetRate(ctx context.Context, r Rate) error {
	_, err := l.setRate(ctx, r, script.Always)
	return err
}

// UpdateRate changes the rate if there is one, and reports whether there is.
// What was taken counts, unless Rate.PerClient changes.
func (l *RateLimiter) UpdateRate(ctx context.Context, r Rate) (bool, error) {
	return l.setRate(ctx, r, script.WhenOld)
}

func (l *RateLimiter) setRate(ctx context.Context, r Rate, when script.When) (bool, error) {
	if err := r.check(); err != nil {
		return false, l.fail("set the rate of", err)
	}
	return l.decide(ctx, "set the rate of", func(request string) driver.Call {
		return l.wire(0).Set(request, script.Rate{Permits: r.Permits, Interval: r.Per, PerClient: r.PerClient, Keep: r.KeepAlive}, when)
	})
}

// Rate returns the rate. The error matches [ErrNotFound] if there is none.
func (l *RateLimiter) Rate(ctx context.Context) (Rate, error) {
	r, _, err := l.inspect(ctx)
	return r, err
}

// Available returns how many permits could be had now.
func (l *RateLimiter) Available(ctx context.Context) (int, error) {
	_, n, err := l.inspect(ctx)
	return n, err
}

func (l *RateLimiter) inspect(ctx context.Context) (Rate, int, error) {
	var r script.Rate
	var n int
	err := l.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		r, n, err = l.wire(0).Inspect(ctx, l.client.driver)
		return err
	})
	if err == nil && r.Permits == 0 {
		err = l.explain("inspect", 0, script.ErrNoRate)
	}
	return Rate{Permits: r.Permits, Per: r.Interval, PerClient: r.PerClient, KeepAlive: r.Keep}, n, err
}

// Allow reports whether it could take a permit now.
func (l *RateLimiter) Allow(ctx context.Context) (bool, error) { return l.AllowN(ctx, 1) }

// AllowN reports whether it could take n permits now. More than the rate are an
// error that matches [ErrInvalid], and without a rate it is [ErrNotFound].
func (l *RateLimiter) AllowN(ctx context.Context, n int) (bool, error) {
	_, err := l.take(ctx, "take from", n, engine.Request{})
	if errors.Is(err, ErrNotAcquired) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// Wait waits until it may use a permit.
func (l *RateLimiter) Wait(ctx context.Context, opts ...Option) error {
	return l.WaitN(ctx, 1, opts...)
}

// WaitN waits until it may use n permits. It returns [ErrNotAcquired] at once if
// that would be after the deadline of ctx, or after the time that the option
// [Wait] gives; [Remaining] then tells when. What a caller that gives up had
// been promised is given back. With Wait(0) it is [RateLimiter.AllowN] that tells
// when to come again.
func (l *RateLimiter) WaitN(ctx context.Context, n int, opts ...Option) error {
	r, err := l.request("wait for", opts)
	if err == nil {
		_, err = l.take(ctx, "wait for", n, r)
	}
	return err
}

// Reserve takes one permit that may be used later, see ReserveN.
func (l *RateLimiter) Reserve(ctx context.Context, opts ...Option) (*Reservation, error) {
	return l.ReserveN(ctx, 1, opts...)
}

// ReserveN takes n permits, and says when they may be used instead of waiting
// for that. It returns [ErrNotAcquired] where [RateLimiter.WaitN] would.
func (l *RateLimiter) ReserveN(ctx context.Context, n int, opts ...Option) (*Reservation, error) {
	r, err := l.request("reserve from", opts)
	if err != nil {
		return nil, err
	}
	r.Ahead = true
	taken, err := l.take(ctx, "reserve from", n, r)
	if err != nil {
		return nil, err
	}
	return &Reservation{limiter: l, permits: n, request: taken.Owner, at: time.Now().Add(taken.After)}, nil
}

// request returns how to take permits that may have to be waited for.
func (l *RateLimiter) request(op string, opts []Option) (engine.Request, error) {
	set := l.set.with(opts)
	set.leaseless(l.kind)
	if set.err != nil {
		return engine.Request{}, l.fail(op, set.err)
	}
	return set.request(engine.Forever), nil
}

func (l *RateLimiter) take(ctx context.Context, op string, n int, r engine.Request) (engine.Taken, error) {
	err := l.ready(ctx)
	if err == nil {
		err = checkCount("the number of permits", n, 0)
	}
	if err != nil {
		return engine.Taken{}, l.fail(op, err)
	}
	if n == 0 {
		return engine.Taken{}, nil
	}
	taken, err := l.client.engine.Take(ctx, l.wire(n), r)
	if err != nil {
		err = l.explain(op, n, err)
	}
	return taken, err
}

// explain says what the errors of the wire mean.
func (l *RateLimiter) explain(op string, n int, err error) error {
	switch {
	case errors.Is(err, script.ErrNoRate):
		err = missing("%v: set one with TrySetRate", script.ErrNoRate)
	case errors.Is(err, script.ErrTooMany):
		err = invalid("%d permits are more than the rate allows in one interval: request fewer", n)
	}
	return l.fail(op, err)
}

// Release gives back n permits that were taken and not needed, up to the rate.
func (l *RateLimiter) Release(ctx context.Context, n int) error {
	err := l.set.err
	if err == nil {
		err = checkCount("the number of permits", n, 0)
	}
	if err != nil {
		return l.fail("release permits of", err)
	}
	if n == 0 {
		return nil
	}
	for n > 0 { // a request gives back what a limited number of entries stand for
		r, err := l.order(ctx, "release permits of", l.wire(n).Release, nil)
		if err != nil {
			return err
		}
		if n, err = script.DecodeReleased(r); err != nil {
			return l.explain("release permits of", n, err)
		}
	}
	return nil
}

// A Reservation is permits that were taken ahead of time.
type Reservation struct {
	limiter *RateLimiter
	permits int
	request string
	at      time.Time
}

// Delay returns how long to wait before the permits may be used.
func (r *Reservation) Delay() time.Duration { return max(time.Until(r.at), 0) }

// Cancel gives the permits back, if they may not be used yet. Those that come
// after keep the time that they were given, so that a gap among them stays one.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r.limiter == nil {
		return &Error{Op: "cancel a reservation", Err: invalid("this is a zero value: create it with RateLimiter.Reserve")}
	}
	if r.permits == 0 {
		return nil
	}
	return r.limiter.ask(ctx, "release permits of", true, func(ctx context.Context) error {
		_, err := r.limiter.client.driver.Do(ctx, r.limiter.wire(r.permits).Cancel(r.request))
		return err
	})
}

// Object returns the limiter as an object, with what all clients share and what
// this one has of its own.
func (l *RateLimiter) Object() *Object { return l.asObject() }

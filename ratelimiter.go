package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A RateLimiter limits how many permits all processes together get per interval. It
// shares its permits with RRateLimiter in Redisson. Its methods have the names of those
// in golang.org/x/time/rate.
//
// In any period as long as the interval, by the server's clock alone, the limiter
// grants at most the permits of the rate. Permits are not spread over the interval:
// with ten permits per second, ten may be granted in the same moment, and then none for
// a second. To spread them, set a rate of one permit per tenth of a second.
//
// A call that has to wait gets its time at once, after all earlier calls of all
// processes. Then it waits until that time without asking again. A program that is
// delayed after the grant may act in the next interval.
//
// If the server has refused permits, the client refuses calls for as many or more
// without a request, for at most 5 ms, or until the next permit is due, if that is
// sooner. So a flood of refused calls does not load the server. Meanwhile, the client
// sees its own changes of the rate and its own returned permits, but not those of other
// clients. This applies to calls that do not wait: AllowN, TakeN, and WaitN and
// ReserveN with Wait(0).
type RateLimiter struct {
	named
	one *script.RateLimiter // a request for one permit
}

const limiterKind = "rate limiter"

// RateLimiter returns the rate limiter with the given name, see [Client.Mutex]. It
// needs a rate: declare it with [WithRate], or see [RateLimiter.TrySetRate]. [Poll] has
// no effect.
func (c *Client) RateLimiter(name string, opts ...RateOption) *RateLimiter {
	l := &RateLimiter{named: newNamed(c, limiterKind, name, with(settings{}, opts))}
	if l.set.err == nil {
		l.one = script.NewRateLimiter(l.name, c.ID(), 1)
	}
	l.creates = l.declare()
	return l
}

func (l *RateLimiter) wire(n int) *script.RateLimiter {
	if l.one == nil {
		return script.NewRateLimiter(l.name, l.client.ID(), n) // the call fails
	}
	return l.one.For(n)
}

// A Rate is the number of permits that a [RateLimiter] grants per interval.
type Rate struct {
	// Permits is the number of permits per interval.
	Permits int
	// Per is the interval, in whole milliseconds.
	Per time.Duration
	// PerClient applies the rate to each [Client] separately, which usually means to
	// each process. By default, all clients share the permits.
	PerClient bool
	// KeepAlive is the time after which an unused limiter and its rate are deleted, but
	// not earlier than Per plus one second after the last granted permit, because a
	// granted permit counts for one interval. Zero means never.
	KeepAlive time.Duration
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

// TrySetRate sets the rate if there is none, and reports whether it did. Every process
// may call it at its start.
func (l *RateLimiter) TrySetRate(ctx context.Context, r Rate) (bool, error) {
	return l.setRate(ctx, r, script.WhenNew)
}

// SetRate sets the rate and resets the count of granted permits. If the rate is per
// client, it resets the count of this client only.
func (l *RateLimiter) SetRate(ctx context.Context, r Rate) error {
	_, err := l.setRate(ctx, r, script.Always)
	return err
}

// UpdateRate changes the rate if there is one, and reports whether it did. It
// keeps the count of granted permits, unless Rate.PerClient changes.
func (l *RateLimiter) UpdateRate(ctx context.Context, r Rate) (bool, error) {
	return l.setRate(ctx, r, script.WhenOld)
}

func (l *RateLimiter) setRate(ctx context.Context, r Rate, when script.When) (bool, error) {
	if err := r.check(); err != nil {
		return false, l.fail("set the rate of", err)
	}
	return l.decide(ctx, "set the rate of", func(request string) driver.Call { return r.call(l.wire(0), request, when) })
}

// call returns the call that sets the rate.
func (r Rate) call(wire *script.RateLimiter, request string, when script.When) driver.Call {
	return wire.Set(request, script.Rate{Permits: r.Permits, Interval: r.Per, PerClient: r.PerClient, Keep: r.KeepAlive}, when)
}

// Rate returns the rate. The error matches [ErrNotFound] if there is none.
func (l *RateLimiter) Rate(ctx context.Context) (Rate, error) {
	r, _, err := l.inspect(ctx)
	return r, err
}

// Available returns how many permits are available now.
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

// Allow is AllowN for one permit.
func (l *RateLimiter) Allow(ctx context.Context) (bool, error) { return l.AllowN(ctx, 1) }

// AllowN takes n permits if they are available now, and reports whether it did. The
// error matches [ErrInvalid] if n is more than the rate allows in one interval, and
// [ErrNotFound] if there is no rate.
func (l *RateLimiter) AllowN(ctx context.Context, n int) (bool, error) {
	_, err := l.take(ctx, "take from", n, engine.Request{})
	if errors.Is(err, ErrNotAcquired) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// Take is TakeN for one permit.
func (l *RateLimiter) Take(ctx context.Context) (retryAfter time.Duration, err error) {
	return l.TakeN(ctx, 1)
}

// TakeN is like [RateLimiter.AllowN], but returns after which time the permits can be
// available, as in the header Retry-After of an HTTP response, or zero if it took them.
// The time may be 1 ms longer than the interval, because the server counts whole
// milliseconds, and no interval may contain more permits than the rate.
func (l *RateLimiter) TakeN(ctx context.Context, n int) (retryAfter time.Duration, err error) {
	_, err = l.take(ctx, "take from", n, engine.Request{})
	if errors.Is(err, ErrNotAcquired) && ctx.Err() == nil {
		return max(Remaining(err), time.Millisecond), nil
	}
	return 0, err
}

// Wait is WaitN for one permit.
func (l *RateLimiter) Wait(ctx context.Context, opts ...WaitOption) error {
	return l.WaitN(ctx, 1, opts...)
}

// WaitN waits until it may use n permits. If they are not available before the deadline
// of ctx, or within the time of the option [Wait], WaitN returns [ErrNotAcquired] at
// once; [Remaining] returns how long they would take. If ctx is done during the wait,
// the permits are released. The other errors are those of [RateLimiter.AllowN].
func (l *RateLimiter) WaitN(ctx context.Context, n int, opts ...WaitOption) error {
	r, err := l.request("wait for", opts)
	if err == nil {
		_, err = l.take(ctx, "wait for", n, r)
	}
	return err
}

// Reserve is ReserveN for one permit.
func (l *RateLimiter) Reserve(ctx context.Context, opts ...WaitOption) (*Reservation, error) {
	return l.ReserveN(ctx, 1, opts...)
}

// ReserveN is like [RateLimiter.WaitN], but does not wait: [Reservation.Delay] returns
// how long to wait before the permits may be used.
func (l *RateLimiter) ReserveN(ctx context.Context, n int, opts ...WaitOption) (*Reservation, error) {
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

// request returns the request for permits that the call may have to wait for.
func (l *RateLimiter) request(op string, opts []WaitOption) (engine.Request, error) {
	set := with(l.set, opts)
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
	wire := l.wire(n)
	seen := l.observe(ctx, l.client, wire)
	r.Report, r.Caller, r.Declare = seen.notes(), (*taker)(&l.named), l.creates
	taken, err := l.client.engine.Take(ctx, wire, r)
	if err != nil {
		err = because(ctx, l.explain(op, n, err))
	}
	l.client.taken(seen, err)
	return taken, err
}

// explain converts the errors of package script.
func (l *RateLimiter) explain(op string, n int, err error) error {
	if _, ok := err.(*engine.Busy); ok { //nolint:errorlint // the engine does not wrap it, and a flood of refusals has to be fast
		return &Error{Op: op, Kind: l.kind, Name: l.given, Err: err}
	}
	switch {
	case errors.Is(err, script.ErrNoRate):
		err = missing("%v: declare one with WithRate, or set one with TrySetRate", script.ErrNoRate)
	case errors.Is(err, script.ErrTooMany):
		err = invalid("%d permits are more than the rate allows in one interval: raise the rate, or request fewer", n)
	}
	return l.fail(op, err)
}

// Release returns n unused permits to the limiter, at most up to the rate.
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
	err = l.release(ctx, n)
	l.observeRelease(ctx, n, err)
	return err
}

func (l *RateLimiter) release(ctx context.Context, n int) error {
	for n > 0 { // one request releases the permits of a limited number of entries
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

// A Reservation holds permits for later use.
type Reservation struct {
	limiter *RateLimiter
	permits int
	request string
	at      time.Time
}

// Delay returns how long to wait before the permits may be used, or zero.
func (r *Reservation) Delay() time.Duration { return max(time.Until(r.at), 0) }

// Cancel returns the permits if their time has not come yet. Later reservations are not
// moved forward.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r.limiter == nil {
		return &Error{Op: "cancel a reservation", Err: invalid("this is a zero value: create it with RateLimiter.Reserve")}
	}
	if r.permits == 0 {
		return nil
	}
	return r.limiter.ask(ctx, "release permits of", true, func(ctx context.Context) error {
		_, err := r.limiter.client.driver.Do(ctx, r.limiter.wire(r.permits).Cancel(r.request))
		r.limiter.client.engine.Changed(r.limiter.name)
		return err
	})
}

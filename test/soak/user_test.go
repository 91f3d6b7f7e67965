package soak_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A user is a goroutine of a worker that takes one lock after the other.
type user struct {
	*worker
	number int // of its client
	client *holdfast.Client
	rand   *rand.Rand
}

// chance reports true in n of 100 cases.
func (u *user) chance(n int) bool { return u.rand.IntN(100) < n }

// between returns a random time.
func (u *user) between(from, to time.Duration) time.Duration {
	return from + time.Duration(u.rand.Int64N(int64(to-from)))
}

// turn makes one call, and works under the lease.
func (u *user) turn(ctx context.Context) {
	l := u.choose()
	opts, limit := u.options(l)
	call := int(u.calls.Add(1))
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	giveUp := func() bool { return true }
	switch {
	case limit > 0 && u.chance(20): // by its context
		giveUp = time.AfterFunc(limit, cancel).Stop
	case limit > 0:
		l.want.Limit = limit
		opts = append(opts, holdfast.Wait(limit))
	}
	l.want.Client = u.number
	u.add(record{Event: evCall, Call: call, Want: &l.want})
	got, err := l.lock(wait, opts)
	giveUp()
	if err != nil {
		u.add(record{Event: evFailed, Call: call, Text: class(err)})
		rest(ctx.Done(), u.between(time.Millisecond, 200*time.Millisecond))
		return
	}
	u.hold(ctx, call, l, got)
	rest(ctx.Done(), u.between(0, 60*time.Millisecond))
}

// options returns the options of a call, and for how long it may wait.
func (u *user) options(l *lock) (opts []holdfast.LockOption, limit time.Duration) {
	l.want.Lease = lease
	switch n := u.rand.IntN(100); {
	case n < 15:
		l.want.Lease, l.want.Fixed = u.between(300*time.Millisecond, 2*time.Second), true
		opts = append(opts, holdfast.LeaseTime(l.want.Lease))
	case n < 25:
		l.want.Lease = u.between(2*time.Second, longest)
		opts = append(opts, holdfast.WatchdogTimeout(l.want.Lease))
	}
	if u.chance(3) && l.want.Permits == 0 && !l.want.Shared && len(l.want.Names) == 1 && !l.want.Fixed {
		l.want.Keep = u.between(50*time.Millisecond, 500*time.Millisecond)
		opts = append(opts, holdfast.AtLeast(l.want.Keep))
	}
	switch n := u.rand.IntN(100); {
	case n < 15:
		limit = u.between(2*time.Millisecond, 100*time.Millisecond)
	case n < 35:
		limit = u.between(100*time.Millisecond, 3*time.Second)
	case n < 50:
		limit = u.between(3*time.Second, 30*time.Second)
	}
	return opts, limit
}

// hold works under a lease until the work is done or the lease is lost, and releases it.
func (u *user) hold(ctx context.Context, call int, l *lock, got *holdfast.Lease) {
	var work time.Duration
	switch n := u.rand.IntN(1000); {
	case n < 700:
		work = u.between(0, 5*time.Millisecond)
	case n < 980:
		work = u.between(5*time.Millisecond, 60*time.Millisecond)
	case n < 995:
		work = u.between(100*time.Millisecond, time.Second)
	default:
		work = u.between(2*time.Second, 5*time.Second) // longer than a lease
	}
	if l.want.Fixed && u.chance(10) {
		work = l.want.Lease + time.Second
	}
	u.add(record{Event: evGot, Call: call, Tokens: l.tokens(got)})
	u.watch(ctx, call, got, work)
	if l.again != nil && !l.want.Fixed && u.chance(10) {
		if inner, err := l.again(got.Context()); err == nil {
			if text := class(inner.Release(context.Background())); text != "" && text != "lost" && text != "unavailable" {
				u.add(record{Event: evLeak, Text: "release of a lock that was entered again: " + text})
			}
			u.watch(ctx, call, got, time.Millisecond)
		}
	}
	err := got.Release(context.Background())
	u.add(record{Event: evReleased, Call: call, Text: class(err)})
}

// watch works under a lease and records that it is valid, and how it ends. It reads the clock
// before it asks the lease: however long the scheduler takes in between, the lock was held then.
func (u *user) watch(ctx context.Context, call int, got *holdfast.Lease, work time.Duration) {
	const look, tell = 10 * time.Millisecond, 50 * time.Millisecond
	end := redistest.Now() + int64(work)
	var valid, alive int64
	noted := redistest.Now()
	for {
		now := redistest.Now()
		if got.Context().Err() == nil {
			alive = now
		}
		isValid := got.Valid()
		if isValid {
			valid = now
		}
		if got.Context().Err() != nil {
			var lost *holdfast.LostError
			if errors.As(context.Cause(got.Context()), &lost) {
				u.add(record{At: now, Event: evTold, Call: call, Text: string(lost.Reason), To: now + int64(time.Until(got.Deadline()))})
			}
			break
		}
		if now >= end || ctx.Err() != nil {
			break
		}
		if now-noted > int64(tell) && valid > 0 {
			noted = now
			u.add(record{At: valid, Event: evValid, Call: call, To: alive})
		}
		rest(got.Context().Done(), min(look, time.Duration(end-now)))
	}
	if valid > 0 {
		u.add(record{At: valid, Event: evValid, Call: call, To: alive})
	}
}

// rest waits, at most until done is closed. It reports whether the time has passed.
func rest(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

// unexpected begins the class of an error that no fault explains.
const unexpected = "unexpected: "

// classes are the errors that faults explain. The first that matches counts.
var classes = []struct {
	err  error
	text string
}{
	{holdfast.ErrLost, "lost"},
	{holdfast.ErrQueueFull, "queue full"},
	{holdfast.ErrNotReplicated, "not replicated"},
	{holdfast.ErrUnavailable, "unavailable"},
	{context.Canceled, "cancelled"},
	{holdfast.ErrNotAcquired, "not acquired"},
}

// class returns what the judge must know of an error.
func class(err error) string {
	for _, known := range classes {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	if err != nil {
		return unexpected + err.Error()
	}
	return ""
}

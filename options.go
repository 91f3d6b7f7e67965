package holdfast

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// A LockOption configures a call that acquires a lease or, if it is passed to a method such
// as [Client.Mutex], all calls of that object.
type LockOption interface {
	RWOption
	PermitOption
	lock()
}

// A WaitOption configures how a call waits. It is also every other option.
type WaitOption interface {
	LockOption
	SemaphoreOption
	RateOption
	wait()
}

// An RWOption is an option of [Client.RWMutex].
type RWOption interface {
	settable
	rw()
}

// A PermitOption is an option of [Client.LeasedSemaphore].
type PermitOption interface {
	settable
	permit()
}

// A SemaphoreOption is an option of [Client.Semaphore] and [Client.LeasedSemaphore].
type SemaphoreOption interface {
	PermitOption
	semaphore()
}

// A RateOption is an option of [Client.RateLimiter].
type RateOption interface {
	settable
	rate()
}

// settable is what all options have.
type settable interface{ apply(*settings) }

// An option is every option. The functions that return one narrow it to its use.
type option func(*settings)

var _ WaitOption = option(nil)

func (o option) apply(s *settings) { o(s) }
func (option) lock()               {}
func (option) wait()               {}
func (option) rw()                 {}
func (option) permit()             {}
func (option) semaphore()          {}
func (option) rate()               {}

type settings struct {
	lease        time.Duration // zero: the watchdog renews
	renewal      time.Duration // the lease time of leases that are renewed; zero: that of the client
	wait         time.Duration
	waitSet      bool
	atLeast      time.Duration // how long the lock stays after it was acquired; zero: until its release
	nonReentrant bool
	writerFirst  bool
	permits      int  // declared; zero: none
	rate         Rate // declared; zero: none
	pause        func(int) time.Duration
	onAcquire    func(*Lease)
	onRelease    func(*Lease, error)
	err          error
}

func (s *settings) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// with returns the settings changed by opts. It does not allocate if there are
// no options, which is the common case.
func with[O settable](s settings, opts []O) settings {
	if len(opts) == 0 {
		return s
	}
	changed := s
	for _, o := range opts {
		if any(o) == nil {
			changed.fail(invalid("an option is nil"))
			continue
		}
		o.apply(&changed)
	}
	return changed
}

func (s *settings) request(wait time.Duration) engine.Request {
	if s.waitSet {
		wait = s.wait
	}
	return engine.Request{Lease: s.lease, Renewal: s.renewal, Wait: wait, Pause: s.pause}
}

// LeaseTime sets a fixed lease time. The watchdog does not renew the lease: when d has
// passed, the lock is free, even if it was not released. The context of the lease ends
// earlier by 5 % of d, at least 50 ms and at most 5 s, but at most a quarter of d. The
// client verifies every [Options].RenewEvery that the server still has the lease.
//
// If a lock is entered again, all leases on it end together, at the latest end that any
// of them requested, even if that one was released. An inner lease without LeaseTime
// extends the outer lease, too.
func LeaseTime(d time.Duration) LockOption {
	return option(func(s *settings) {
		if d < minLease || d > maxLease {
			s.fail(invalid("LeaseTime is %v: choose between %v and %v", d, minLease, maxLease))
		}
		s.lease = d.Truncate(time.Millisecond)
	})
}

// WatchdogTimeout overrides [Options].WatchdogTimeout for one lock or one call. So a
// leader with WatchdogTimeout(5*time.Second) is replaced sooner after a crash, beside
// locks of 30 s in the same client. The leases are renewed every third of d, or every
// [Options].RenewEvery if that is more often.
//
// Of LeaseTime and WatchdogTimeout, the last one applies. If a lock is entered again,
// the watchdog renews it for the longest time that was requested, see [LeaseTime].
func WatchdogTimeout(d time.Duration) LockOption {
	return option(func(s *settings) {
		if d < minRenewed || d > maxLease {
			s.fail(invalid("WatchdogTimeout is %v: choose between %v and %v", d, minRenewed, maxLease))
		}
		s.lease, s.renewal = 0, d.Truncate(time.Millisecond)
	})
}

// AtLeast makes the server keep the lock until d has passed since it was acquired: an
// earlier release, also by [Client.Close], is like [Lease.ReleaseAfter] for the rest of
// the time. A job that many hosts start at the same time then runs once, although it
// ends quickly and their clocks differ. It corresponds to lockAtLeastFor in ShedLock.
//
// If the process dies, or the lease is lost, the lock ends with the lease, which may be
// earlier. For read locks and permits, AtLeast is an [ErrInvalid].
func AtLeast(d time.Duration) LockOption {
	return option(func(s *settings) {
		if d < minLease || d > maxLease {
			s.fail(invalid("AtLeast is %v: choose between %v and %v", d, minLease, maxLease))
		}
		s.atLeast = d
	})
}

// Wait bounds the time to wait for the lock, and not the work under the lock, as a
// deadline of the context would. If d is less than a millisecond, the call tries once.
// If Wait is passed to [Client.Mutex], TryLock waits too.
//
// A request in flight when d has passed gets one more second for its answer, without
// which the client does not know whether it holds the lock. So a call returns at most
// one second after d.
func Wait(d time.Duration) WaitOption {
	return option(func(s *settings) {
		if d < 0 {
			s.fail(invalid("Wait is %v: it cannot be negative; omit it to wait until the context is done", d))
		}
		s.wait, s.waitSet = min(d.Truncate(time.Millisecond), maxLease), true
	})
}

// NonReentrant makes a call fail with [ErrReentrant] if its context already
// holds the lock. Without it, the call enters the lock again.
func NonReentrant() LockOption {
	return option(func(s *settings) { s.nonReentrant = true })
}

// OnAcquire calls fn with each acquired lease, before the call that acquired it
// returns, or before the function of Do runs. If it is given several times, all
// functions are called.
func OnAcquire(fn func(*Lease)) LockOption {
	return option(func(s *settings) {
		if fn == nil {
			s.fail(invalid("the function of OnAcquire is nil"))
		}
		before := s.onAcquire
		s.onAcquire = func(l *Lease) {
			if before != nil {
				before(l)
			}
			fn(l)
		}
	})
}

// OnRelease calls fn after a lease was released, with the error that [Lease.Release]
// will return. If it is given several times, all functions are called.
func OnRelease(fn func(*Lease, error)) LockOption {
	return option(func(s *settings) {
		if fn == nil {
			s.fail(invalid("the function of OnRelease is nil"))
		}
		before := s.onRelease
		s.onRelease = func(l *Lease, err error) {
			if before != nil {
				before(l, err)
			}
			fn(l, err)
		}
	})
}

// Poll makes a call poll the lock, with the pauses of b, instead of subscribing to a
// channel. This sends more commands, and finds a free lock later. Use it where pub/sub
// is not allowed. It corresponds to getSpinLock in Redisson.
func Poll(b Backoff) WaitOption {
	return option(func(s *settings) {
		if err := b.check(); err != nil {
			s.fail(err)
		}
		s.pause = b.withDefaults().pause
	})
}

// A Backoff configures the pauses of [Poll]. Zero fields have Redisson's defaults.
type Backoff struct {
	Initial    time.Duration // the first pause; 1 ms by default
	Max        time.Duration // the longest pause; 128 ms by default, or Initial if that is longer
	Multiplier int           // the factor between two pauses, plus a little jitter; 2 by default; 1: all are equal
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial == 0 {
		b.Initial = time.Millisecond
	}
	if b.Multiplier == 0 {
		b.Multiplier = 2
	}
	if b.Max == 0 {
		b.Max = max(b.Initial, 128*time.Millisecond)
	}
	return b
}

func (b Backoff) check() error {
	d := b.withDefaults()
	switch {
	case d.Initial < 0 || d.Max < 0 || d.Multiplier < 1:
		return invalid("Backoff %+v: Initial, Max and Multiplier cannot be negative", b)
	case d.Max < d.Initial:
		return invalid("Backoff.Max is %v: choose at least Backoff.Initial (%v)", d.Max, d.Initial)
	case d.Max > time.Hour:
		return invalid("Backoff.Max is %v: choose at most an hour", d.Max)
	}
	return nil
}

// pause returns the pause after the given number of failures in a row.
func (b Backoff) pause(failures int) time.Duration {
	d := b.Initial
	for i := 1; i < failures && d < b.Max && b.Multiplier > 1; i++ {
		if d > b.Max/time.Duration(b.Multiplier) {
			return b.Max // avoids an overflow
		}
		d = d*time.Duration(b.Multiplier) + rand.N(time.Duration(i)*time.Millisecond)
	}
	return min(d, b.Max)
}

package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// An Option is a wish for one call, or, given to [Client.Mutex], for all calls
// of that mutex.
type Option func(*settings)

type settings struct {
	lease        time.Duration // zero: the watchdog renews
	wait         time.Duration
	waitSet      bool
	nonReentrant bool
	writerFirst  bool
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

// with returns the settings as opts change them. Without any, which is the
// common case, nothing moves to the heap.
func (s settings) with(opts []Option) settings {
	if len(opts) == 0 {
		return s
	}
	changed := s
	for _, o := range opts {
		if o == nil {
			changed.fail(invalid("an option is nil"))
			continue
		}
		o(&changed)
	}
	return changed
}

// leaseless refuses what only applies to leases.
func (s *settings) leaseless(kind string) {
	if s.lease != 0 || s.nonReentrant || s.writerFirst || s.onAcquire != nil || s.onRelease != nil {
		s.fail(invalid("options for leases do not apply to the %s: remove them", kind))
	}
}

func (s *settings) request(wait time.Duration) engine.Request {
	if s.waitSet {
		wait = s.wait
	}
	return engine.Request{Lease: s.lease, Wait: wait, Pause: s.pause}
}

// LeaseTime fixes how long the lease lasts. It is not renewed: when d is over,
// the lock is free, released or not. The context of the lease ends a little
// before: 5 % of d, at most 5 s. Every [Options].RenewEvery the client verifies
// that the server still keeps the lease.
//
// A lock that is entered again has one end for all its leases, the latest that
// any of them has asked for. A later lease time of an inner lease therefore
// keeps the outer lease alive as well, also after the inner one was released.
// An inner lease that is renewed does the same.
func LeaseTime(d time.Duration) Option {
	return func(s *settings) {
		if d < minLease || d > maxLease {
			s.fail(invalid("LeaseTime is %v: choose between %v and %v", d, minLease, maxLease))
		}
		s.lease = d.Truncate(time.Millisecond)
	}
}

// Wait bounds how long to wait for the lock; less than a millisecond tries
// once. It ends the waiting and nothing else, whereas a deadline on the
// context would also end the work under the lock. Given to [Client.Mutex], it
// makes TryLock wait as well.
//
// A request that is under way when d is over gets one more second to be
// answered: without the answer it is not known whether the lock is held. So a
// call returns at most a second after d.
func Wait(d time.Duration) Option {
	return func(s *settings) {
		if d < 0 {
			s.fail(invalid("Wait is %v: it cannot be negative; omit it to wait until the context is done", d))
		}
		s.wait, s.waitSet = min(d.Truncate(time.Millisecond), maxLease), true
	}
}

// NonReentrant makes a call whose context already holds the lock fail at once
// with [ErrReentrant] instead of entering it again.
func NonReentrant() Option {
	return func(s *settings) { s.nonReentrant = true }
}

// OnAcquire has fn called with every lease that is taken, before the call that
// took it returns; in Do, before the work begins. Of several, each is called.
func OnAcquire(fn func(*Lease)) Option {
	return func(s *settings) {
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
	}
}

// OnRelease has fn called when a lease has been released, with the error that
// [Lease.Release] is about to return: nil, or what went wrong.
func OnRelease(fn func(*Lease, error)) Option {
	return func(s *settings) {
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
	}
}

// Poll waits by looking at the lock again and again, as often as b says, and
// without subscribing to anything. It costs more commands and finds a free
// lock later; use it where pub/sub is not allowed. Redisson has it as getSpinLock.
func Poll(b Backoff) Option {
	return func(s *settings) {
		if err := b.check(); err != nil {
			s.fail(err)
		}
		s.pause = b.withDefaults().pause
	}
}

package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Lease is a lock that is held. Every successful call that takes a lock
// returns one, and each has to be released. It is safe for concurrent use and
// may be passed on to other goroutines.
type Lease struct {
	client  *Client
	kind    string
	name    string
	hold    *engine.Hold // nil if it has parts
	pass    int          // which user of the hold this lease is
	token   int64
	renewed bool
	parts   *parts // of a lease on several locks
	whole   *Lease // of which this one is a part

	parent   context.Context     // the context given to Lock
	outer    *Lease              // the innermost lease that parent carries
	survives string              // the kind of the lease in parent beside which it was granted, and whose end it survives
	exit     func(*Lease, error) // after Release

	mu     sync.Mutex
	done   bool // released
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.name }

// Owner returns the name under which the server knows the holder: the client's
// ID, a colon and a number. A lease on several locks has the first one's.
func (l *Lease) Owner() string {
	if l.parts != nil {
		return l.parts.leases[0].Owner()
	}
	if l.hold == nil {
		return "" // the zero Lease
	}
	return l.hold.Owner()
}

// Token returns the fencing token: a number above those of all earlier leases
// on this name by the same kind of lock. Send it along with every write, and let the resource refuse
// numbers below the highest it has seen. Re-entering a lock keeps the token.
//
// A lease to read has a token that is not below that of any writer before it. A
// lease on several locks has none, that is zero; its [Lease.Parts] have. One of
// a [Redlock] has none.
func (l *Lease) Token() int64 { return l.token }

// Permits returns the ids of the permits of a [LeasedSemaphore], as Redisson
// writes them, or nil for a lease on a lock.
func (l *Lease) Permits() []string {
	if l.hold == nil {
		return nil
	}
	return l.hold.IDs()
}

// Valid reports whether the lock is held at this moment. It compares clocks
// and costs no request. Ask it right before an irrevocable step: a process
// that was stopped and resumed may run for a moment before it learns that its
// [Lease.Context] is done.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.done && clock.Now() < l.deadline()
}

// zero reports whether the lease was never granted.
func (l *Lease) zero() bool { return l.hold == nil && l.parts == nil }

// deadline is as of clock.Now. It is zero once the lock is lost.
func (l *Lease) deadline() time.Duration {
	if l.parts != nil {
		return l.parts.deadline()
	}
	if l.hold == nil {
		return 0
	}
	return l.hold.Deadline()
}

// why returns the reason for which the lock was lost, or zero.
func (l *Lease) why() watchdog.Reason {
	if l.parts != nil {
		if lost := l.parts.lost(); lost != nil {
			return lost.why()
		}
		return 0
	}
	return l.hold.Loss()
}

// Deadline returns the time up to which the server is known to keep the lock
// for this lease. Renewals move it. It is the zero Time once the lease has
// ended.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.deadline(); !l.done && d != 0 {
		return time.Now().Add(d - clock.Now())
	}
	return time.Time{}
}

// Context returns the context for the work that the lock protects. It is
// derived from the one given to Lock and ends with it, or with the lease: when
// that is lost, its [context.Cause] matches [ErrLost].
//
// The context carries the owner, so that locking the same name with it enters
// the lock again. Goroutines that share it are one owner: the lock does not
// keep them apart. See [Detach].
func (l *Lease) Context() context.Context {
	if l.whole != nil {
		return l.whole.Context()
	}
	if l.zero() {
		panic("holdfast: Context of a zero Lease: use what Lock has returned, if that was without an error")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		ctx, cancel := l.derive()
		l.ctx, l.cancel = &leaseContext{ctx, l}, cancel
		switch {
		case l.done:
			cancel(&released{l})
		case l.why() != 0:
			cancel(l.loss())
		}
	}
	return l.ctx
}

// derive returns the context of the lease, without the lease.
func (l *Lease) derive() (context.Context, context.CancelCauseFunc) {
	if l.survives == "" {
		return context.WithCancelCause(l.parent)
	}
	free := context.WithoutCancel(l.parent)
	stop := context.CancelFunc(func() {})
	if d, ok := l.parent.Deadline(); ok {
		free, stop = context.WithDeadline(free, d)
	}
	ctx, cancel := context.WithCancelCause(free)
	context.AfterFunc(ctx, stop)
	l.follow(l.parent, ctx, cancel)
	return ctx, cancel
}

// follow ends the context of the lease with another one, unless that ends
// because the lease was released beside which this one was granted: then it
// follows the context that that one was taken with.
func (l *Lease) follow(other, ctx context.Context, cancel context.CancelCauseFunc) {
	if other.Err() != nil {
		var r *released
		cause := context.Cause(other)
		if errors.As(cause, &r) && r.lease.find(l.client, l.survives, l.name) != nil {
			l.follow(r.lease.parent, ctx, cancel)
			return
		}
		if _, ok := ctx.Deadline(); ok && errors.Is(other.Err(), context.DeadlineExceeded) {
			return // its own is over as well, and says so better
		}
		cancel(cause)
		return
	}
	stop := context.AfterFunc(other, func() { l.follow(other, ctx, cancel) })
	context.AfterFunc(ctx, func() { stop() })
}

// released is the cause of the context of a lease that was released.
type released struct{ lease *Lease }

func (*released) Error() string { return "holdfast: use of a released lease: " + ErrNotHeld.Error() }
func (*released) Unwrap() error { return ErrNotHeld }

// announce tells the program that it has the lease. Should the program fail at
// that, it gives the lease back.
func (l *Lease) announce(fn func(*Lease)) {
	if fn == nil {
		return
	}
	ok := false
	defer func() {
		if !ok {
			_ = l.Release(l.parent)
		}
	}()
	fn(l)
	ok = true
}

// Extend makes the server keep the lock for at least d from now on. It never
// shortens what is left of a lease. As always, [Lease.Deadline] is a little
// earlier. The error matches [ErrLost] if the lock was lost, [ErrNotHeld] if it
// was released, and [ErrUnavailable] if the server has not answered, in which
// case the lease lasts as long as before.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l.whole != nil {
		return l.whole.Extend(ctx, d)
	}
	if err := checkContext(ctx); err != nil {
		return l.wrap("extend", err)
	}
	if l.zero() {
		return l.wrap("extend", ErrNotHeld)
	}
	if p := l.parts; p != nil && p.longest > 0 && d > p.longest {
		return l.wrap("extend", invalid("extension is %v, more than the longest lease that the servers know of, %v", d, p.longest))
	}
	if err := checkExtension(d); err != nil {
		return l.wrap("extend", err)
	}
	l.mu.Lock()
	done := l.done
	l.mu.Unlock()
	if done {
		return l.wrap("extend", ErrNotHeld)
	}
	return l.wrap("extend", l.extend(ctx, d.Truncate(time.Millisecond)))
}

func checkExtension(d time.Duration) error {
	if d < minLease || d > maxLease {
		return invalid("extension is %v: choose between %v and %v", d, minLease, maxLease)
	}
	return nil
}

func (l *Lease) extend(ctx context.Context, d time.Duration) error {
	if l.parts != nil {
		err := l.parts.all(func(p *Lease) error { return p.extend(ctx, d) })
		if err == nil && clock.Now() >= l.deadline() {
			err = ErrLost // while some of them were extended
		}
		return err
	}
	return l.hold.Extend(ctx, l.pass, d)
}

// Release gives the lock back, once per lease; releasing again does nothing.
// The lease's context is ended first, and with it the contexts of leases that
// were taken with it, so release those before (what a writer has taken to read
// stays, see [RWMutex]). Release works when ctx is done
// already, so that it can be deferred: nothing in ctx stops a release.
//
// A nil error means that the lock was held until Release was called. After a
// loss the error matches [ErrLost]: what was done under the lock may have
// overlapped with others. That is also the error if the lease was over when
// Release was called and the server does not say that it still kept the lock.
// If the server does not answer within a second or two, the error matches
// [ErrUnavailable], and Release continues in the background until the lock has
// expired.
//
// The parts of a lease on several locks are released together, with any one of
// them.
func (l *Lease) Release(ctx context.Context) error {
	if l.whole != nil {
		return l.whole.Release(ctx)
	}
	if l.zero() {
		return l.wrap("release", ErrNotHeld)
	}
	l.mu.Lock()
	if l.done {
		l.mu.Unlock()
		return nil
	}
	l.done = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(&released{l})
	}
	err := l.wrap("release", l.release())
	if l.exit != nil {
		l.exit(l, err)
	}
	return err
}

func (l *Lease) release() error {
	if l.parts != nil {
		return l.parts.release()
	}
	return l.hold.Release((*lossHandler)(l), l.renewed)
}

func (l *Lease) wrap(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrLost):
		return l.loss()
	}
	return &Error{Op: op, Kind: l.kind, Name: l.name, Err: err}
}

// loss returns the error of this lost lease.
func (l *Lease) loss() *LostError {
	if l.parts != nil {
		if lost := l.parts.lost(); lost != nil {
			return lost.loss()
		}
	}
	reason, ok := lossReasons[l.why()]
	if !ok {
		reason = LossExpired // it is being taken out of care right now
	}
	lost := &LostError{Name: l.name, Owner: l.Owner(), Reason: reason}
	if reason == LossExpired || reason == LossUnreplicated {
		lost.Cause = l.fault()
	}
	return lost
}

// fault returns the error of the last renewal, or nil. A timeout of a request is
// not the end of a context of the caller's, so that mark is taken off.
func (l *Lease) fault() error {
	if l.hold == nil {
		return nil
	}
	err := l.hold.Fault()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New(err.Error())
	}
	return err
}

// A lossHandler is a lease as the watchdog sees it.
type lossHandler Lease

// Lost ends the context of the lease.
func (k *lossHandler) Lost(watchdog.Reason) {
	l := (*Lease)(k)
	if l.whole != nil {
		l.whole.lostPart()
		return
	}
	l.end()
}

// end ends the context of a lease that is lost.
func (l *Lease) end() {
	l.mu.Lock()
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(l.loss())
	}
}

// A leaseContext carries a lease.
type leaseContext struct {
	context.Context
	lease *Lease
}

type leaseKey struct{}

func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.lease
	}
	return c.Context.Value(key)
}

// Detach returns a context that carries no leases: work that is started with
// it contends for the locks that ctx holds like anybody else. It still ends
// when ctx does; work that is to outlive a lease needs
// Detach(context.WithoutCancel(ctx)).
func Detach(ctx context.Context) context.Context {
	if ctx == nil {
		panic("holdfast: Detach of a nil context: use context.Background()")
	}
	return &leaseContext{ctx, nil}
}

// LeaseOf returns the lease that ctx comes from, the innermost if there are
// several, or nil. Work that runs in Do finds its lease with it, and thus its
// token.
func LeaseOf(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// find returns the innermost lease on that lock in ctx that is not released.
func (c *Client) find(ctx context.Context, kind, name string) *Lease {
	for l := LeaseOf(ctx); l != nil; l = l.outer {
		if found := l.find(c, kind, name); found != nil && !l.released() {
			return found
		}
	}
	return nil
}

// find returns the lease, or the part of it, that is on that lock.
func (l *Lease) find(c *Client, kind, name string) *Lease {
	if l.parts != nil {
		for _, p := range l.parts.leases {
			if p.client == c && p.name == name && p.kind == kind {
				return p
			}
		}
	}
	if l.client == c && l.name == name && l.kind == kind {
		return l
	}
	return nil
}

func (l *Lease) released() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

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
	hold    *engine.Hold
	pass    int // which user of the hold this lease is
	token   int64
	renewed bool

	parent context.Context // the context given to Lock
	outer  *Lease          // the innermost lease that parent carries

	mu     sync.Mutex
	done   bool // released
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.name }

// Owner returns the name under which the server knows the holder: the client's
// ID, a colon and a number.
func (l *Lease) Owner() string { return l.hold.Owner }

// Token returns the fencing token: a number above those of all earlier leases
// on this name. Send it along with every write, and let the resource refuse
// numbers below the highest it has seen. Re-entering a lock keeps the token.
func (l *Lease) Token() int64 { return l.token }

// Valid reports whether the lock is held at this moment. It compares clocks
// and costs no request. Ask it right before an irrevocable step: a process
// that was stopped and resumed may run for a moment before it learns that its
// [Lease.Context] is done.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.done && l.hold.Valid()
}

// Deadline returns the time up to which the server is known to keep the lock
// for this lease. Renewals move it. It is the zero Time once the lease has
// ended.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.hold.Deadline(); !l.done && d != 0 {
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		ctx, cancel := context.WithCancelCause(l.parent)
		l.ctx, l.cancel = &leaseContext{ctx, l}, cancel
		switch {
		case l.done:
			cancel(errReleased)
		case l.hold.Loss() != 0:
			cancel(l.loss())
		}
	}
	return l.ctx
}

var errReleased = &Error{Op: "use of a released lease", Err: ErrNotHeld}

// Extend makes the server keep the lock for at least d from now on. It never
// shortens what is left of a lease. As always, [Lease.Deadline] is a little
// earlier.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if d < minLease || d > maxLease {
		return l.wrap("extend", invalid("extension is %v: choose between %v and %v", d, minLease, maxLease))
	}
	l.mu.Lock()
	done := l.done
	l.mu.Unlock()
	if done {
		return l.wrap("extend", ErrNotHeld)
	}
	return l.wrap("extend", l.hold.Extend(ctx, l.pass, d.Truncate(time.Millisecond)))
}

// Release gives the lock back, once per lease; releasing again does nothing.
// The lease's context is ended first, and with it the contexts of leases that
// were taken with it, so release those before. Release works when ctx is done
// already, so that it can be deferred: nothing in ctx stops a release.
//
// After a loss it returns an error that matches [ErrLost]: whatever was done
// under the lock may have overlapped with others. When the server does not
// answer within a second or two it returns [ErrUnavailable] and goes on trying
// in the background, until the lock would have expired anyway.
func (l *Lease) Release(ctx context.Context) error {
	_ = ctx
	l.mu.Lock()
	if l.done {
		l.mu.Unlock()
		return nil
	}
	l.done = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(errReleased)
	}
	return l.wrap("release", l.hold.Release((*keeper)(l), l.renewed))
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
	reason, ok := lossReasons[l.hold.Loss()]
	if !ok {
		reason = LossExpired // it is being taken out of care right now
	}
	return &LostError{Name: l.name, Owner: l.hold.Owner, Reason: reason}
}

// A keeper is a lease as the watchdog sees it.
type keeper Lease

// Lost ends the context of the lease.
func (k *keeper) Lost(watchdog.Reason) {
	l := (*Lease)(k)
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
	return &leaseContext{ctx, nil}
}

func leaseOf(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// find returns the innermost lease on that lock in ctx that is not released.
func (c *Client) find(ctx context.Context, kind, name string) *Lease {
	for l := leaseOf(ctx); l != nil; l = l.outer {
		if l.client == c && l.name == name && l.kind == kind && !l.released() {
			return l
		}
	}
	return nil
}

func (l *Lease) released() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

package holdfast

import (
	"context"
	"errors"
)

// Context returns the context for the work that the lock protects. It is derived from
// the context given to Lock, and is also done when the lease ends. If the lease was
// lost, its [context.Cause] matches [ErrLost].
//
// Locking the same name with this context enters the lock again. Goroutines that share
// the context are one owner, and the lock does not exclude them from each other. See
// [Detach].
func (l *Lease) Context() context.Context {
	if l.whole != nil {
		return l.whole.Context()
	}
	if l.zero() {
		panic("holdfast: Context of a zero Lease: use the Lease that Lock returned without an error")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		ctx, cancel := l.derive()
		l.ctx, l.cancel = &leaseContext{ctx, l}, cancel
		l.keep()
		switch {
		case l.done:
			cancel(&released{l})
		case l.why() != 0:
			cancel(l.loss())
		}
	}
	return l.ctx
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

// Detach returns a context that carries no leases, and is done when ctx is done. Work
// that uses it contends for the locks that ctx holds. For work that must outlive a
// lease, use Detach(context.WithoutCancel(ctx)).
func Detach(ctx context.Context) context.Context {
	if ctx == nil {
		panic("holdfast: Detach of a nil context: use context.Background()")
	}
	return &leaseContext{ctx, nil}
}

// LeaseOf returns the innermost lease that ctx carries, or nil. Use it in a function
// that runs in Do to get its lease and its token.
func LeaseOf(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// find returns the innermost unreleased lease on that lock in ctx, or nil.
func (c *Client) find(ctx context.Context, kind, name string) *Lease {
	for l := LeaseOf(ctx); l != nil; l = l.outer {
		if found := l.find(c, kind, name); found != nil && !l.released() {
			return found
		}
	}
	return nil
}

// find returns the lease, or its part, that is on that lock, or nil.
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

// derive returns the context of the lease. It does not carry the lease yet.
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

// follow ends the context of the lease when other is done. If other is done because
// the lease that this one survives was released, follow continues with the parent of
// that lease.
func (l *Lease) follow(other, ctx context.Context, cancel context.CancelCauseFunc) {
	if other.Err() != nil {
		var r *released
		cause := context.Cause(other)
		if errors.As(cause, &r) && r.lease.find(l.client, l.survives, l.name) != nil {
			l.follow(r.lease.parent, ctx, cancel)
			return
		}
		if _, ok := ctx.Deadline(); ok && errors.Is(other.Err(), context.DeadlineExceeded) {
			return // the lease's context has the same deadline, and reports it itself
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

package holdfast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// A Locker is any lock of this module.
type Locker interface {
	// Name returns the name of the lock.
	Name() string
	// Lock waits until the lock is held or ctx is done.
	Lock(ctx context.Context, opts ...Option) (*Lease, error)
	// TryLock does not wait, or only as long as the option Wait says.
	TryLock(ctx context.Context, opts ...Option) (*Lease, error)
}

// Do runs fn while holding any lock, as [Mutex.Do] does.
func Do(ctx context.Context, l Locker, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, l, fn, opts)
}

// DoValue runs fn while holding a lock, as [Mutex.Do] does, and returns its
// value. The value counts only if the error is nil: it may have been computed
// after the lock was lost.
func DoValue[T any](ctx context.Context, l Locker, fn func(context.Context) (T, error), opts ...Option) (T, error) {
	var value T
	if fn == nil {
		return value, do(ctx, l, nil, opts)
	}
	err := do(ctx, l, func(ctx context.Context) (err error) {
		value, err = fn(ctx)
		return err
	}, opts)
	return value, err
}

func do(ctx context.Context, l Locker, fn func(context.Context) error, opts []Option) (err error) {
	switch {
	case l == nil:
		return &Error{Op: "do", Err: invalid("the lock is nil")}
	case fn == nil:
		return &Error{Op: "do", Err: invalid("the function is nil")}
	}
	lease, err := l.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { // also when fn panics
		if released := lease.Release(ctx); err == nil {
			err = released
		} else if released != nil {
			err = errors.Join(err, released)
		}
	}()
	return fn(lease.Context())
}

// SyncLocker adapts a lock to [sync.Locker], for code that takes nothing else.
// Prefer Lock or Do: a sync.Locker has no way to say that the lock could not
// be had, or that it was lost, so its Lock panics where l.Lock would return an
// error, and its Unlock panics after a loss. Nor can it enter a lock again.
func SyncLocker(ctx context.Context, l Locker, opts ...Option) sync.Locker {
	if l == nil {
		panic("holdfast: SyncLocker: the lock is nil: pass one, for example from Client.Mutex")
	}
	return &syncLocker{ctx: Detach(ctx), lock: l, opts: opts}
}

type syncLocker struct {
	ctx  context.Context
	lock Locker
	opts []Option

	// Locked from Lock to Unlock, also when the lease was lost in between:
	// nobody may release the lease of somebody else.
	mu    sync.Mutex
	lease atomic.Pointer[Lease]
}

func (s *syncLocker) Lock() {
	s.mu.Lock()
	lease, err := s.lock.Lock(s.ctx, s.opts...)
	if err != nil {
		s.mu.Unlock()
		panic(err)
	}
	s.lease.Store(lease)
}

func (s *syncLocker) Unlock() {
	lease := s.lease.Swap(nil)
	if lease == nil {
		panic(&Error{Op: "unlock", Kind: "lock", Name: s.lock.Name(), Err: ErrNotHeld})
	}
	err := lease.Release(s.ctx)
	s.mu.Unlock()
	if err != nil {
		panic(err)
	}
}

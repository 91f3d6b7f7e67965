package holdfast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// A Locker is any lock of this package.
type Locker interface {
	// Name returns the name of the lock.
	Name() string
	// Lock waits until it holds the lock, or until ctx is done.
	Lock(ctx context.Context, opts ...LockOption) (*Lease, error)
	// TryLock acquires the lock if it is free. It waits only with the option
	// Wait.
	TryLock(ctx context.Context, opts ...LockOption) (*Lease, error)
	// Do runs fn while holding the lock, like [Mutex.Do].
	Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error
}

// DoValue is like [Mutex.Do] for any lock, and returns the value of fn. Use the value
// only if the error is nil. Otherwise it may have been computed after the lock was
// lost.
func DoValue[T any](ctx context.Context, l Locker, fn func(context.Context) (T, error), opts ...LockOption) (T, error) {
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

func do(ctx context.Context, l Locker, fn func(context.Context) error, opts []LockOption) (err error) {
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
		switch released := lease.Release(ctx); {
		case err == nil:
			err = released
		case released != nil && !sameLoss(err, released):
			err = errors.Join(err, released)
		}
	}()
	return fn(lease.Context())
}

// sameLoss reports whether two errors are about the loss of the same lease.
func sameLoss(a, b error) bool {
	var x, y *LostError
	return errors.As(a, &x) && errors.As(b, &y) && x.Name == y.Name && x.Owner == y.Owner
}

// SyncLocker adapts a lock to [sync.Locker], for code that requires it. Prefer Lock or
// Do. Its Lock panics if l.Lock returns an error, and its Unlock panics if the lock was
// lost. It cannot enter a lock again.
func SyncLocker(ctx context.Context, l Locker, opts ...LockOption) sync.Locker {
	if l == nil {
		panic("holdfast: SyncLocker: the lock is nil: pass one, for example from Client.Mutex")
	}
	return &syncLocker{ctx: Detach(ctx), lock: l, opts: opts}
}

type syncLocker struct {
	ctx  context.Context
	lock Locker
	opts []LockOption

	// mu is locked from Lock to Unlock, even if the lease is lost in between, so
	// that a call of Unlock cannot release the lease of a later Lock.
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

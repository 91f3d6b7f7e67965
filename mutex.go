package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var _ Locker = (*Mutex)(nil)

// A Mutex is a named lock that one owner at a time can hold, among all
// processes that use the same server. It corresponds to RLock in Redisson and
// shares its locks with it.
//
// A Mutex is only a name. Creating one sends nothing. Several Mutex values with
// the same name are the same lock. A Mutex is safe for concurrent use. Use
// [Client.Mutex] to create one.
type Mutex struct{ exclusive }

// Mutex returns the mutex with the given name. The name is its key on the
// server, so do not use the key of your data. The options apply to all of its
// calls.
//
// A name has 1 to 512 bytes of UTF-8 without control characters. Braces are
// allowed only for a hash tag, as in "order:{42}". The prefixes of Redisson's
// other keys and "holdfast:" are reserved. If the name or an option is invalid,
// each call returns an error that matches [ErrInvalid].
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return &Mutex{exclusive{newNamed(c, "mutex", name, with(settings{}, opts)), script.NewMutex(c.prefixed(name))}}
}

// Lock waits until it holds the mutex, or until ctx is done. If ctx comes from
// a lease on this mutex, Lock enters the mutex again, see [Lease.Context]. A
// deadline of ctx also ends the context of the lease. To bound only the
// waiting, use [Wait].
//
// The error matches [ErrNotAcquired] if another owner still held the lock when
// the wait ended. If ctx ended the wait, it also matches the error of ctx and its
// cause. The error matches [ErrUnavailable] if the server could not serve for
// [Options].RetryTimeout, and [ErrRefused] if the server refuses the request. A
// lock that is granted after ctx is done is released.
func (m *Mutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquire(ctx, "lock", m.wire, engine.Forever, opts)
}

// TryLock acquires the mutex if it is free. Otherwise it returns
// [ErrNotAcquired] at once, or after [Wait]. [Remaining] returns how long the
// holder still has the lock.
//
// If the server does not answer or cannot serve, TryLock retries for one second
// and then fails with [ErrUnavailable]. With the last pause and the last
// request, this takes at most 1.5 s plus the timeout of a request. This timeout
// is a parameter of [Open], 2 s by default. If the grant waits for replicas, add
// the timeout of [Replication].
func (m *Mutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquire(ctx, "try lock", m.wire, 0, opts)
}

// Do runs fn while holding the mutex. The context of fn ends when the lock is
// lost. With the option Wait(0), Do runs fn only if the mutex is free.
//
// Do returns the error of [Mutex.Lock] if fn was not run. Otherwise it returns
// the error of fn, joined with the error of [Lease.Release]: [ErrLost] if the
// lock was lost before fn returned, [ErrUnavailable] if the lock could not be
// released.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// State asks the server for the holder of the mutex.
func (m *Mutex) State(ctx context.Context) (State, error) { return m.state(ctx) }

// IsLocked asks the server whether the mutex is held.
func (m *Mutex) IsLocked(ctx context.Context) (bool, error) { return m.isLocked(ctx) }

// HoldCount asks the server how many times the owner in ctx holds the mutex. It
// is zero if ctx does not come from a lease on this mutex.
func (m *Mutex) HoldCount(ctx context.Context) (int, error) { return m.holdCount(ctx) }

// ForceUnlock frees the mutex, regardless of its holder, and reports whether it
// was held. If a lease of this client holds the mutex, it is lost even if
// ForceUnlock returns an error, and its context ends at once. Other holders
// notice the loss at their next renewal.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) { return m.forceUnlock(ctx) }

// Object returns the mutex as an object, for example to inspect it or to listen
// to it.
func (m *Mutex) Object() *Object { return m.asObject() }

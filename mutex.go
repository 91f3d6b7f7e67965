package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var _ Locker = (*Mutex)(nil)

// A Mutex is a named lock that one owner at a time can hold, in any process
// that uses the same server. It is what Redisson calls RLock, and shares its
// locks with it.
//
// A Mutex is a name and no more: it holds nothing, costs nothing to make, and
// many may exist by one name. It is safe for concurrent use. [Client.Mutex]
// makes one.
type Mutex struct{ exclusive }

// Mutex returns the mutex with that name, which is its key at the server: do
// not give it that of your data. The options apply to all of its calls.
//
// A name has 1 to 512 bytes of UTF-8 without control characters. Braces may
// only mark a hash tag, as in "order:{42}"; the prefixes of Redisson's other
// keys, and "holdfast:", are reserved. The error of a bad name or option is
// returned by each call.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	return &Mutex{exclusive{newNamed(c, "mutex", name, opts), script.NewMutex(name)}}
}

// Lock waits until it holds the mutex, or until ctx is done. With a context of
// a lease on this mutex it enters it again, see [Lease.Context]. A deadline of
// ctx also ends the context of the lease; to bound the waiting alone, use
// [Wait].
//
// The error matches [ErrNotAcquired] if others kept the lock all the time, and
// then also ctx's error; [ErrUnavailable] if the server could not serve for
// [Options].RetryTimeout; [ErrRefused] if it will not. A lock that was granted
// too late for ctx is given back.
func (m *Mutex) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "lock", m.wire, engine.Forever, opts)
}

// TryLock takes the mutex if it is free, and otherwise returns [ErrNotAcquired]
// at once, or after [Wait]. [Remaining] tells how long the holder still has.
//
// A server that does not answer, or cannot serve, is tried again for a second.
// With the last pause and the last request, TryLock fails with [ErrUnavailable]
// at most 1.5 s and the timeout of one request after the call. The timeout is
// that of [Open], 2 s by default, and where the grant waits for replicas that of
// [Replication] in addition.
func (m *Mutex) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "try lock", m.wire, 0, opts)
}

// Do runs fn while holding the mutex, with a context that ends when the lock
// is lost. With the option Wait(0) it runs fn only if the mutex is free.
//
// Do returns the error of [Mutex.Lock] if fn was not run, and otherwise that
// of fn, joined with that of [Lease.Release]: [ErrLost] if the lock was lost
// before fn returned, [ErrUnavailable] if it could not be given back.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, m, fn, opts)
}

// State asks the server who holds the mutex.
func (m *Mutex) State(ctx context.Context) (State, error) { return m.state(ctx) }

// IsLocked asks the server whether anybody holds the mutex.
func (m *Mutex) IsLocked(ctx context.Context) (bool, error) { return m.isLocked(ctx) }

// HoldCount asks the server how often the owner that ctx carries holds the
// mutex. It is zero if ctx does not descend from the context of a lease on it.
func (m *Mutex) HoldCount(ctx context.Context) (int, error) { return m.holdCount(ctx) }

// ForceUnlock frees the mutex, whoever holds it, and reports whether anybody
// did. A holder in this client has lost its lease in any case, and is told at
// once; others learn of it when they renew next.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) { return m.forceUnlock(ctx) }

// Object returns the mutex as an object, to look at it or listen to it.
func (m *Mutex) Object() *Object { return m.asObject() }

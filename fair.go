package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var _ Locker = (*FairMutex)(nil)

// A FairMutex is a [Mutex] that is granted in the order in which requests
// arrive at the server, from all processes. It corresponds to getFairLock in
// Redisson and shares its locks and its queue with it.
//
// If the process of a waiter dies, the waiter is skipped after a few seconds. A
// waiter that gives up leaves the queue at once. A release grants the lock to the
// next waiter and tells its client: two requests for a hand-off, however many wait.
// A FairMutex is slower than a Mutex only where many goroutines of one process
// want it, because a Mutex is then mostly handed over inside the process. Use it if
// the order matters.
//
// A Mutex and a FairMutex with the same name exclude each other. But the Mutex
// does not enter the queue, and it gets no message when the FairMutex is
// released: it finds out at its next poll. Use only one of the two kinds for a
// name.
type FairMutex struct{ exclusive }

// FairMutex returns the fair mutex with the given name. Names and options are
// those of [Client.Mutex].
func (c *Client) FairMutex(name string, opts ...LockOption) *FairMutex {
	return &FairMutex{exclusive{newNamed(c, "fair mutex", name, with(settings{}, opts)), script.NewFair(c.prefixed(name))}}
}

// Lock waits in the queue until it holds the mutex, or until ctx is done.
// Otherwise it is like [Mutex.Lock].
func (m *FairMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquire(ctx, "lock", m.wire, engine.Forever, opts)
}

// TryLock acquires the mutex if it is free and the queue is empty. Otherwise it
// returns [ErrNotAcquired] at once. With [Wait] it waits in the queue.
func (m *FairMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquire(ctx, "try lock", m.wire, 0, opts)
}

// Do runs fn while holding the mutex, like [Mutex.Do].
func (m *FairMutex) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// State asks the server for the holder of the mutex and the queue.
func (m *FairMutex) State(ctx context.Context) (State, error) { return m.state(ctx) }

// IsLocked asks the server whether the mutex is held.
func (m *FairMutex) IsLocked(ctx context.Context) (bool, error) { return m.isLocked(ctx) }

// HoldCount asks the server how many times the owner in ctx holds the mutex.
func (m *FairMutex) HoldCount(ctx context.Context) (int, error) { return m.holdCount(ctx) }

// ForceUnlock frees the mutex, like [Mutex.ForceUnlock]. The queue is kept.
func (m *FairMutex) ForceUnlock(ctx context.Context) (bool, error) { return m.forceUnlock(ctx) }

// Object returns the mutex as an object, for example to inspect it or to listen
// to it.
func (m *FairMutex) Object() *Object { return m.asObject() }

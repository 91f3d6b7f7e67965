package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var _ Locker = (*FairMutex)(nil)

// A FairMutex is a [Mutex] that is granted in the order in which those who wait
// have come to the server, whatever process they are in. It is what Redisson
// returns from getFairLock, and shares its locks and its queue with it.
//
// A waiter whose process dies is skipped after a few seconds; one that gives
// up leaves the queue at once. Fairness has its price: every grant costs two
// requests and a message, where a Mutex under load is mostly handed over
// inside the process. Use it where the order matters.
//
// A Mutex and a FairMutex by one name exclude each other, but the Mutex does
// not queue, and is not told when the FairMutex is released: it finds out when it
// looks next. Use one of them for a name.
type FairMutex struct{ exclusive }

// FairMutex returns the fair mutex with that name. Names and options are as
// for [Client.Mutex].
func (c *Client) FairMutex(name string, opts ...Option) *FairMutex {
	return &FairMutex{exclusive{newNamed(c, "fair mutex", name, opts), script.NewFair(name)}}
}

// Lock waits in the queue until it holds the mutex, or until ctx is done. It is
// otherwise as [Mutex.Lock].
func (m *FairMutex) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "lock", m.wire, engine.Forever, opts)
}

// TryLock takes the mutex if it is free and nobody waits for it, and otherwise
// returns [ErrNotAcquired] at once. With [Wait] it waits in the queue.
func (m *FairMutex) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "try lock", m.wire, 0, opts)
}

// Do runs fn while holding the mutex, as [Mutex.Do] does.
func (m *FairMutex) Do(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, m, fn, opts)
}

// State asks the server who holds the mutex and who waits for it.
func (m *FairMutex) State(ctx context.Context) (State, error) { return m.state(ctx) }

// IsLocked asks the server whether anybody holds the mutex.
func (m *FairMutex) IsLocked(ctx context.Context) (bool, error) { return m.isLocked(ctx) }

// HoldCount asks the server how often the owner that ctx carries holds the
// mutex.
func (m *FairMutex) HoldCount(ctx context.Context) (int, error) { return m.holdCount(ctx) }

// ForceUnlock frees the mutex, as [Mutex.ForceUnlock] does. Those who wait keep
// their places.
func (m *FairMutex) ForceUnlock(ctx context.Context) (bool, error) { return m.forceUnlock(ctx) }

// Object returns the mutex as an object, to look at it or listen to it.
func (m *FairMutex) Object() *Object { return m.asObject() }

package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var _ Locker = (*FencedMutex)(nil)

// A FencedMutex is a [Mutex] whose tokens come from a counter at the server: 1,
// 2, 3 and so on for each grant. It is what Redisson calls RFencedLock, and
// shares its locks and its counter with it.
//
// The tokens of other locks rise as well, but are made of the server's clock,
// so that nothing is left behind when the lock is released. Use a FencedMutex
// where the clock may be set back, where a Java program shares the lock, or
// where the token should survive as long as the data: the counter is kept when
// the lock is released, and lasts as long as the server keeps its data. If the
// server loses it, the tokens begin at 1 again, and a resource that remembers
// higher ones refuses them: see package fence. A fenced lease is never handed
// over inside the process, so a contended FencedMutex is slower than a Mutex.
//
// Entering the mutex again keeps the token. (Redisson raises it, so that the
// outer section finds its own token outdated.)
type FencedMutex struct {
	exclusive
	counter *script.Fenced
}

// FencedMutex returns the fenced mutex with that name. Names and options are as
// for [Client.Mutex].
func (c *Client) FencedMutex(name string, opts ...Option) *FencedMutex {
	wire := script.NewFenced(name)
	return &FencedMutex{exclusive{newNamed(c, "fenced mutex", name, opts), wire}, wire}
}

// Lock waits until it holds the mutex, or until ctx is done, as [Mutex.Lock]
// does. The token is [Lease.Token].
func (m *FencedMutex) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "lock", m.wire, engine.Forever, opts)
}

// TryLock takes the mutex if it is free, as [Mutex.TryLock] does.
func (m *FencedMutex) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "try lock", m.wire, 0, opts)
}

// Do runs fn while holding the mutex, as [Mutex.Do] does. Inside of fn, the
// token is LeaseOf(ctx).Token().
func (m *FencedMutex) Do(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, m, fn, opts)
}

// Token asks the server for the token of the last grant. It is zero before the
// first one.
func (m *FencedMutex) Token(ctx context.Context) (int64, error) {
	var token int64
	err := m.ask(ctx, "read the token of", true, func(ctx context.Context) (err error) {
		token, err = m.counter.Token(ctx, m.client.driver)
		return err
	})
	return token, err
}

// State asks the server who holds the mutex.
func (m *FencedMutex) State(ctx context.Context) (State, error) { return m.state(ctx) }

// IsLocked asks the server whether anybody holds the mutex.
func (m *FencedMutex) IsLocked(ctx context.Context) (bool, error) { return m.isLocked(ctx) }

// HoldCount asks the server how often the owner that ctx carries holds the
// mutex.
func (m *FencedMutex) HoldCount(ctx context.Context) (int, error) { return m.holdCount(ctx) }

// ForceUnlock frees the mutex, as [Mutex.ForceUnlock] does. The counter stays.
func (m *FencedMutex) ForceUnlock(ctx context.Context) (bool, error) { return m.forceUnlock(ctx) }

// Object returns the mutex as an object, to look at it or listen to it.
func (m *FencedMutex) Object() *Object { return m.asObject() }

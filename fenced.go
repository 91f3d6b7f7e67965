package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var _ Locker = (*FencedMutex)(nil)

// A FencedMutex is a [Mutex] whose tokens come from a counter on the server: 1,
// 2, 3 and so on for each grant. It corresponds to RFencedLock in Redisson and
// shares its locks and its counter with it.
//
// The tokens of other locks also increase, but they are made from the server's
// clock, so nothing stays on the server when the lock is released. Use a
// FencedMutex in these cases:
//
//   - The clock may be set back.
//   - Java programs check tokens of the same lock.
//   - Tokens must increase for as long as the protected data exists. The
//     counter is kept when the lock is released, as long as the server keeps
//     its data.
//
// If the server loses the counter, tokens begin at 1 again. A resource that
// remembers a higher token refuses them: see package fence. A FencedMutex is
// never handed over inside the process, so under contention it is slower than a
// Mutex.
//
// Entering the mutex again keeps the token. Redisson increases it, so that the
// token of the outer section is outdated.
type FencedMutex struct {
	exclusive
	counter *script.Fenced
}

// FencedMutex returns the fenced mutex with the given name. Names and options
// are those of [Client.Mutex].
func (c *Client) FencedMutex(name string, opts ...LockOption) *FencedMutex {
	wire := script.NewFenced(c.prefixed(name))
	return &FencedMutex{exclusive{newNamed(c, "fenced mutex", name, with(settings{}, opts)), wire}, wire}
}

// Lock waits until it holds the mutex, or until ctx is done, like [Mutex.Lock].
// [Lease.Token] returns the token.
func (m *FencedMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquire(ctx, "lock", m.wire, engine.Forever, opts)
}

// TryLock acquires the mutex if it is free, like [Mutex.TryLock].
func (m *FencedMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquire(ctx, "try lock", m.wire, 0, opts)
}

// Do runs fn while holding the mutex, like [Mutex.Do]. In fn, the token is
// LeaseOf(ctx).Token().
func (m *FencedMutex) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// Token asks the server for the token of the last grant. It is zero before the
// first grant.
func (m *FencedMutex) Token(ctx context.Context) (int64, error) {
	var token int64
	err := m.ask(ctx, "read the token of", true, func(ctx context.Context) (err error) {
		token, err = m.counter.Token(ctx, m.client.driver)
		return err
	})
	return token, err
}

// State asks the server for the holder of the mutex.
func (m *FencedMutex) State(ctx context.Context) (State, error) { return m.state(ctx) }

// IsLocked asks the server whether the mutex is held.
func (m *FencedMutex) IsLocked(ctx context.Context) (bool, error) { return m.isLocked(ctx) }

// HoldCount asks the server how many times the owner in ctx holds the mutex.
func (m *FencedMutex) HoldCount(ctx context.Context) (int, error) { return m.holdCount(ctx) }

// ForceUnlock frees the mutex, like [Mutex.ForceUnlock]. The counter is kept.
func (m *FencedMutex) ForceUnlock(ctx context.Context) (bool, error) { return m.forceUnlock(ctx) }

// Object returns the mutex as an object, for example to inspect it or to listen
// to it.
func (m *FencedMutex) Object() *Object { return m.asObject() }

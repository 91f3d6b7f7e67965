package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var _ Locker = (*Mutex)(nil)

// A Mutex is a named lock that one owner at a time can hold, among all processes that
// use the same server. [Client.Mutex], [Client.FairMutex] and [Client.FencedMutex]
// create one.
type Mutex struct {
	named
	wire mutexWire
}

// mutexWire is the wire format of a lock with one holder.
type mutexWire interface {
	engine.Kind
	Inspect(context.Context, driver.Driver) (script.State, error)
	Force(ctx context.Context, d driver.Driver, owner string) (bool, error)
}

func newMutex(c *Client, kind, name string, opts []LockOption, wire mutexWire) *Mutex {
	return &Mutex{newNamed(c, kind, name, with(settings{}, opts)), wire}
}

// Mutex returns the mutex with the given name. It shares its locks with RLock in
// Redisson. The options apply to all of its calls.
//
// The name is its key on the server, so do not use the key of your data. It has 1 to
// 512 bytes of UTF-8 without control characters. Braces are allowed only for a hash
// tag, as in "order:{42}". The prefixes of Redisson's other keys and "holdfast:" are
// reserved. If the name or an option is invalid, each call returns an error that
// matches [ErrInvalid].
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return newMutex(c, "mutex", name, opts, script.NewMutex(c.prefixed(name)))
}

// FairMutex returns a mutex that is granted in the order in which requests arrive at
// the server, from all processes. It shares its locks and its queue with getFairLock in
// Redisson. See [Client.Mutex] for names and options.
//
// Lock waits in the queue, and so does TryLock with [Wait]. Otherwise TryLock succeeds
// only if the mutex is free and the queue is empty. A waiter that gives up leaves the
// queue at once. One whose process dies is skipped after a few seconds. A release
// grants the lock to the next waiter and tells its client: two requests for a hand-off,
// however many wait. A fair mutex is slower than another only where many goroutines of
// one process want it, because another is mostly handed over inside the process.
//
// A fair mutex and another mutex with the same name exclude each other. But the other
// does not enter the queue, and learns of a release of the fair mutex only at its next
// poll. Use only one of the two kinds for a name.
func (c *Client) FairMutex(name string, opts ...LockOption) *Mutex {
	return newMutex(c, "fair mutex", name, opts, script.NewFair(c.prefixed(name)))
}

// FencedMutex returns a mutex whose tokens come from a counter on the server: 1, 2, 3
// and so on for each grant. It shares its locks and its counter with RFencedLock in
// Redisson. See [Client.Mutex] for names and options.
//
// [Lease.Token] returns the token of a lease, and [State].Token the last one. The
// tokens of other locks also increase, but they are made from the server's clock, so
// nothing stays on the server when the lock is released. Use a fenced mutex in these
// cases:
//
//   - The clock may be set back.
//   - Java programs check tokens of the same lock.
//   - Tokens must increase for as long as the protected data exists. The counter is
//     kept as long as the server keeps its data.
//
// If the server loses the counter, tokens begin at 1 again. A resource that remembers a
// higher token refuses them: see package fence. A fenced mutex is never handed over
// inside the process, so it is slower under contention.
//
// Entering the mutex again keeps the token. Redisson increases it, which outdates the
// token of the outer section.
func (c *Client) FencedMutex(name string, opts ...LockOption) *Mutex {
	return newMutex(c, "fenced mutex", name, opts, script.NewFenced(c.prefixed(name)))
}

// Lock waits until it holds the mutex, or until ctx is done. If ctx comes from a lease
// on this mutex, Lock enters the mutex again. A deadline of ctx also ends the context
// of the lease. To bound only the waiting, use [Wait].
//
// The error matches [ErrNotAcquired] if another owner still held the lock when the wait
// ended, [ErrUnavailable] if the server could not serve for [Options].RetryTimeout, and
// [ErrRefused] if the server refuses the request. A lock that is granted after ctx is
// done is released.
func (m *Mutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquire(ctx, "lock", m.wire, engine.Forever, opts)
}

// TryLock acquires the mutex if it is free. Otherwise it returns [ErrNotAcquired] at
// once, or after [Wait]. [Remaining] returns how long the holder still has the lock.
//
// If the server does not answer or cannot serve, TryLock retries for one second and
// then fails with [ErrUnavailable]. This takes at most 1.5 s plus the timeout of a
// request, see [Open], plus the timeout of [Replication] if the grant waits for
// replicas.
func (m *Mutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquire(ctx, "try lock", m.wire, 0, opts)
}

// Do runs fn while holding the mutex. The context of fn ends when the lock is lost.
// With the option Wait(0), Do runs fn only if the mutex is free.
//
// Do returns the error of [Mutex.Lock] if fn was not run. Otherwise it returns the
// error of fn, joined with the error of [Lease.Release], such as [ErrLost].
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

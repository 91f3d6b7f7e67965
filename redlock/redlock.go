// Package redlock locks over several Redis servers that know nothing of each
// other: whoever has the votes of most of them holds the lock. It is the
// algorithm called Redlock, and what Redisson calls RedissonRedLock.
//
//	clients := []*holdfast.Client{a, b, c, d, e} // five servers, no replicas among them
//	locks, err := redlock.New(clients, redlock.Options{})
//	...
//	err = locks.Mutex("order:42").Do(ctx, func(ctx context.Context) error {
//		return charge(ctx)
//	})
//
// # What it protects from
//
// The lock can be had, and is not lost, while fewer than half of the servers
// are down, cut off, or slow. A server that comes up may have forgotten its
// votes, so it gives none until every lease that it may have granted before is
// over: for 30 s by default, also when all of them have just been started for
// the first time. In tests, use clients with a short WatchdogTimeout.
//
// # What it does not protect from
//
// A lease is worth something only until its deadline, by the clocks of the
// client and of most servers: they may run at slightly different speeds (1 % is
// taken off every lease for that), but a server whose clock is set forward
// lets go of its votes early, and if that happens to enough of them two may
// hold the lock. A server on which somebody deletes keys may vote twice. And as with every lock, work that is
// already on its way does not stop when the lease is lost; Valid right before an
// irrevocable step makes the window small, but does not close it.
//
// There is no fencing token: the servers do not count together, so
// [holdfast.Lease.Token] is zero.
//
// # When to prefer one server
//
// If two holders at once would do damage, use one server and a
// [holdfast.FencedMutex], and let the resource check the token: that stays
// correct whatever clocks and processes do. If two at once would only do work
// twice, one server with replicas is simpler and cheaper. Redlock is for those
// who need the lock to be there although any one server may be gone at any
// moment, and can live with the above.
package redlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/family"
)

// Options are the settings of a [Redlock]. The zero value is a good choice.
type Options struct {
	// Servers is how many servers there are. Set it where not all of them could
	// be reached, so that there are fewer clients: a majority is one of all
	// servers, for everybody. A server without a client has no vote in this
	// process until a new Redlock is made. Default: one for each client.
	Servers int

	// NodeTimeout is how long each server may take to answer. One that does not
	// answer has not voted, and is not asked again before it has. Default:
	// 200 ms.
	NodeTimeout time.Duration

	// LongestLease is the longest lease time that anybody uses on these
	// servers, in any process: so long a server that has come up gives no vote.
	// Everybody must use the same, and no less than the longest WatchdogTimeout
	// of the clients, which is the default.
	LongestLease time.Duration
}

// A Redlock is a number of independent servers.
type Redlock struct {
	lock func(name string, opts any) any
}

// New returns a Redlock on the servers of these clients: at least three, and
// best an odd number, none of which is a replica of another. It does not close
// the clients.
func New(clients []*holdfast.Client, o Options) (*Redlock, error) {
	lock, err := family.NewQuorum(clients, o.Servers, o.NodeTimeout, o.LongestLease)
	if err != nil {
		return nil, err
	}
	return &Redlock{lock}, nil
}

// A Mutex is a named lock that one owner at a time can hold. It is a
// [holdfast.Locker] and safe for concurrent use.
type Mutex struct{ lock holdfast.Locker }

// Mutex returns the mutex with that name. Names and options are those of
// [holdfast.Client.Mutex].
func (r *Redlock) Mutex(name string, opts ...holdfast.Option) *Mutex {
	if r == nil || r.lock == nil {
		return new(Mutex)
	}
	return &Mutex{r.lock(name, opts).(holdfast.Locker)}
}

// Name returns the name of the mutex.
func (m *Mutex) Name() string { return m.locker().Name() }

// locker returns the lock. That of a zero Mutex refuses all calls.
func (m *Mutex) locker() holdfast.Locker {
	if m == nil || m.lock == nil {
		return new(holdfast.Mutex)
	}
	return m.lock
}

// Lock waits until most servers have granted the mutex, or until ctx is done.
// It asks again when as many servers as it lacks votes have announced a release,
// when enough leases of others have ended, and every PollInterval.
// The error matches [holdfast.ErrNotAcquired] if others kept it, and
// [holdfast.ErrUnavailable] if too few servers answered.
func (m *Mutex) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Lease, error) {
	return m.locker().Lock(ctx, opts...)
}

// TryLock asks all servers once, at the same time, and takes no longer than
// Options.NodeTimeout; or as long as [holdfast.Wait] says.
func (m *Mutex) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Lease, error) {
	return m.locker().TryLock(ctx, opts...)
}

// Do runs fn while holding the mutex, as [holdfast.Mutex.Do] does.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error, opts ...holdfast.Option) error {
	return holdfast.Do(ctx, m, fn, opts...)
}

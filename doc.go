// Package holdfast provides distributed locks and synchronizers on Redis and Valkey. It
// uses the same keys and channels as Redisson (Java), so services in Go and in Java can
// share a lock.
//
//	client, err := holdfast.Open(ctx, "redis://localhost:6379", nil)
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	err = client.Mutex("order:42").Do(ctx, func(ctx context.Context) error {
//		return charge(ctx) // ctx ends when the lock is lost
//	})
//
// # Leases
//
// A [Lease] is a held lock. It can end before it is released. If the network fails, its
// [Lease.Context] ends before the server can grant the lock to another owner. If the
// process was paused for longer than the lease, the context ends when the process runs
// again: call [Lease.Valid] before an irrevocable step. If the lock is deleted on the
// server, the context ends within [Options].RenewEvery. In each case the cause of the
// context matches [ErrLost]. Pass this context to the work that the lock protects.
//
// The watchdog of the client renews a lease every ten seconds, for another thirty
// seconds, until it is released. [LeaseTime] sets a fixed length instead.
//
// # Re-entry
//
// Goroutines have no identity. The context of a lease carries its owner, see
// [Lease.Owner]: locking the same mutex with that context, or with one derived from it,
// enters the mutex again. The mutex is free when all of these leases are released.
// Locking with any other context waits for the mutex. See [Detach] and [NonReentrant].
//
// # Kinds of locks
//
//   - A [Mutex] is the right lock for most programs.
//   - One of [Client.FairMutex] is granted in the order of arrival.
//   - One of [Client.FencedMutex] takes its tokens from a counter that is kept.
//   - An [RWMutex] has many readers or one writer.
//   - [MultiLocker] takes several locks as one.
//   - A [Redlock] grants locks by a majority of several independent servers.
//
// All of these locks implement [Locker]. Package fence checks tokens at the resource.
//
// # Other synchronizers
//
//   - A [LeasedSemaphore] limits how many holders there are at a time.
//   - A [Latch] waits until a number of steps are done.
//   - A [RateLimiter] limits how many permits are granted per interval.
//   - An [Election] chooses one process as the leader.
//
// Package object has shared values: a number, a value of any type, and unique numbers.
// It also manages the keys of locks and other synchronizers on the server.
//
// A lock or synchronizer is only a name: creating one sends nothing, and all with the
// same name are the same object. All kinds share one namespace: do not use the same
// name for a semaphore and a counter. All methods are safe for concurrent use.
//
// # Guarantees
//
// Two owners never hold an exclusive lock at the same time, as long as the server keeps
// its memory and its clock: at any moment, [Lease.Valid] returns true for at most one
// of them. No lock service can stop a request that was already sent. To be safe from
// late requests, let the resource check [Lease.Token], which increases with every
// grant. The file docs/guarantees.md lists each guarantee and the test that verifies
// it.
package holdfast

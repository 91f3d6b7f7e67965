// Package holdfast offers distributed locks and synchronizers on Redis and
// Valkey, on the very keys and channels that Redisson (Java) uses, so that
// services in Go and in Java can share a lock.
//
//	client, err := holdfast.Open(ctx, "redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	err = client.Mutex("order:42").Do(ctx, func(ctx context.Context) error {
//		return charge(ctx) // ctx ends the moment the lock can no longer be relied on
//	})
//
// # Leases
//
// Holding a lock is holding a [Lease]. It can end without being released. When
// the network fails, or the process was stopped for too long, its
// [Lease.Context] ends, with a cause that matches [ErrLost], before the server
// can give the lock to anybody else; when somebody deletes the lock at the
// server, it ends within [Options].RenewEvery. Pass that context to the work that
// the lock protects.
//
// A lease is renewed by the client's watchdog until it is released, every ten
// seconds for another thirty, unless [LeaseTime] fixes its length.
//
// # Owners and re-entry
//
// Every acquisition has an owner of its own; goroutines have no identity. A
// lease's context carries its owner: locking the same mutex with that context,
// or one derived from it, enters it again, and it is free once every lease has
// been released. Any other context contends. See [Detach] and [NonReentrant].
//
// # Kinds of locks
//
// A [Mutex] is what most programs need. A [FairMutex] serves in the order of
// arrival, an [RWMutex] many readers or one writer, a [FencedMutex] has tokens
// from a counter that outlives it. [Multi] takes several locks as one. All of
// them are a [Locker]. Package redlock locks over several independent servers,
// and package fence checks tokens at the resource.
//
// # Next to the locks
//
// A [LeasedSemaphore] lets some in at a time, a [Latch] waits until all are
// done, a [RateLimiter] spreads them over time, and an [Election] chooses one of
// them. [IDGenerator] and [TimeID] make unique numbers; an [AtomicLong] and a
// [Bucket] are shared values. Each of these, and of the locks, has an [Object],
// to look after its keys. They share one space of names: what is a semaphore must
// not be a counter as well.
//
// # What is promised, and what is not
//
// At no moment do two leases on one lock both answer true to [Lease.Valid], as
// long as the server keeps its memory and its clock. No lock service can
// stop work that has already been sent on its way: for that, let the resource
// check [Lease.Token], which grows with every grant. docs/guarantees.md spells
// out each promise, and which test shows it.
package holdfast

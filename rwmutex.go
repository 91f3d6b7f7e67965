package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var _ Locker = (*RWMutex)(nil)

// An RWMutex is a lock that many readers or one writer can hold. It shares its locks
// with RReadWriteLock in Redisson.
//
// A writer may also lock for reading: RLock with the context of a write lease is
// granted at once. The read lease and its context stay valid when the write lease is
// released, so that other readers can enter (a downgrade). If the write lease is lost,
// the context of the read lease ends too. The opposite is not possible: Lock with the
// context of a read lease returns [ErrUpgrade] at once.
//
// A writer waits while there are readers. While it waits, no further readers are
// admitted for 25 of every 100 ms, so that readers of short sections cannot keep it
// waiting indefinitely. To let it go before all later readers, use [WriterFirst].
//
// Readers of one client that come at nearly the same time share a hold at the server,
// with one owner and one token, so that many of them cost few requests.
// [Options].Handoffs turns this off.
type RWMutex struct {
	write writeLock
	read  rLocker
}

const writeKind = "write lock"

// writeLock is the lock of the writers.
type writeLock struct {
	named
	wire *script.Write
}

// RWMutex returns the read/write mutex with the given name, see [Client.Mutex].
func (c *Client) RWMutex(name string, opts ...RWOption) *RWMutex {
	o := newNamed(c, writeKind, name, with(settings{}, opts))
	r := o
	r.kind, r.beside = "read lock", o.kind
	o.never = r.kind
	read := script.NewRead(o.name)
	read.WriterFirst = o.set.writerFirst
	return &RWMutex{
		writeLock{o, script.NewWrite(o.name, o.set.writerFirst)},
		rLocker{r, read},
	}
}

// WriterFirst makes a waiting writer go before all readers that arrive later.
// Redisson's readers do not respect it. A reader that already holds the lock can enter
// it again. Use the option in all processes: readers without it may keep a waiting
// writer waiting for a quarter of [Options].HandoffTime.
//
// There is no minimum share for readers: writers that lock again and again without a
// pause can keep readers waiting indefinitely.
func WriterFirst() RWOption {
	return option(func(s *settings) { s.writerFirst = true })
}

// Name returns the name of the lock.
func (m *RWMutex) Name() string { return m.write.given }

// Lock locks the mutex for writing, like [Mutex.Lock].
func (m *RWMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.write.acquire(ctx, "lock", m.write.wire, engine.Forever, opts)
}

// TryLock locks the mutex for writing, like [Mutex.TryLock].
func (m *RWMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.write.acquire(ctx, "try lock", m.write.wire, 0, opts)
}

// Do runs fn while holding the mutex for writing, like [Mutex.Do].
func (m *RWMutex) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// RLock locks the mutex for reading, like [Mutex.Lock]. It waits while a writer holds
// the mutex, unless ctx comes from the lease of that writer.
func (m *RWMutex) RLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.read.Lock(ctx, opts...)
}

// TryRLock locks the mutex for reading, like [Mutex.TryLock].
func (m *RWMutex) TryRLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.read.TryLock(ctx, opts...)
}

// RDo runs fn while holding the mutex for reading, like [Mutex.Do].
func (m *RWMutex) RDo(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, &m.read, fn, opts)
}

// RLocker returns a [Locker] whose Lock is RLock. It also has the methods IsLocked, HoldCount
// and ForceUnlock, which concern only the readers.
func (m *RWMutex) RLocker() Locker { return &m.read }

// An RWState is the state of an [RWMutex] on the server at one moment.
type RWState struct {
	Writer  RWHolder   // the zero RWHolder if there is no writer
	Readers []RWHolder // the readers whose leases have not expired; incomplete if there are more than about a thousand
}

// An RWHolder is a holder of an [RWMutex].
type RWHolder struct {
	Owner string        // the owner of a lease ([Lease.Owner]), or a Java thread
	Holds int           // how many times the owner has entered the lock
	TTL   time.Duration // the time until the hold expires if it is not renewed; negative if it never expires

	Client *inspect.Client // the process of the owner, as far as it is known
}

// State asks the server for the writer and the readers.
func (m *RWMutex) State(ctx context.Context) (RWState, error) { return m.read.State(ctx) }

// IsLocked asks the server whether a writer holds the mutex.
func (m *RWMutex) IsLocked(ctx context.Context) (bool, error) {
	s, err := m.read.look(ctx)
	return s.Writer.Owner != "", err
}

// HoldCount asks the server how many times the owner in ctx holds the mutex for
// writing.
func (m *RWMutex) HoldCount(ctx context.Context) (int, error) {
	s, err := m.read.look(ctx)
	return m.write.holds(ctx, s.Writer), err
}

// ForceUnlock frees the mutex from its writer, like [Mutex.ForceUnlock]. It does not
// affect read leases, including those of the writer.
func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	w := &m.write
	return w.force(ctx, w.wire, func(ctx context.Context) (bool, error) { return w.wire.Force(ctx, w.client.driver) })
}

// managed returns the mutex with its keys. Deleting it frees it from the writer and all readers.
func (m *RWMutex) managed() access.Managed {
	o := m.write.managed()
	both := m.write.named
	both.kind = "read/write mutex"
	o.Named = (*inside)(&both)
	o.Deep = "each reader has its own keys: use RWMutex.State"
	o.Free = func(ctx context.Context) (bool, error) {
		written, err := m.ForceUnlock(ctx)
		if err != nil {
			return false, err
		}
		read, err := m.read.ForceUnlock(ctx)
		return written || read, err
	}
	return o
}

// An rLocker is the lock of the readers.
type rLocker struct {
	named
	wire *script.Read
}

// Lock is [RWMutex.RLock].
func (r *rLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.acquire(ctx, "lock", r.wire, engine.Forever, opts)
}

// TryLock is [RWMutex.TryRLock].
func (r *rLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.acquire(ctx, "try lock", r.wire, 0, opts)
}

// Do is [RWMutex.RDo].
func (r *rLocker) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, r, fn, opts)
}

// State asks the server for the writer and the readers.
func (r *rLocker) State(ctx context.Context) (RWState, error) {
	s, err := r.look(ctx)
	if err != nil || s.Writer.Owner == "" && len(s.Readers) == 0 {
		return s, err
	}
	owners := []string{s.Writer.Owner}
	for _, h := range s.Readers {
		owners = append(owners, h.Owner)
	}
	if clients, err := inspect.New(r.client.driver).ClientsOf(ctx, owners...); err == nil { // not essential
		s.Writer.Client = clients[0]
		for i, c := range clients[1:] {
			s.Readers[i].Client = c
		}
	}
	return s, nil
}

// look returns the state without the clients.
func (r *rLocker) look(ctx context.Context) (RWState, error) {
	var s RWState
	var own string
	if l := r.client.find(ctx, r.kind, r.name); l != nil {
		own = l.Owner()
	}
	err := r.ask(ctx, "inspect", true, func(ctx context.Context) error {
		seen, err := r.wire.Inspect(ctx, r.client.driver, own)
		s = RWState{Writer: RWHolder{Owner: seen.Writer.Owner, Holds: seen.Writer.Count, TTL: seen.Writer.TTL}}
		for _, p := range seen.Readers {
			s.Readers = append(s.Readers, RWHolder{Owner: p.Owner, Holds: p.Count, TTL: p.TTL})
		}
		return err
	})
	return s, err
}

// IsLocked asks the server whether a reader holds the mutex.
func (r *rLocker) IsLocked(ctx context.Context) (bool, error) {
	s, err := r.look(ctx)
	return len(s.Readers) > 0, err
}

// HoldCount asks the server how many times the owner in ctx holds the mutex for
// reading.
func (r *rLocker) HoldCount(ctx context.Context) (int, error) {
	s, err := r.look(ctx)
	return r.holds(ctx, s.Readers...), err
}

// ForceUnlock frees the mutex from all readers. If a writer holds the mutex,
// its write lease and its read leases are not affected.
func (r *rLocker) ForceUnlock(ctx context.Context) (bool, error) {
	return r.force(ctx, r.wire, func(ctx context.Context) (bool, error) { return r.wire.Force(ctx, r.client.driver) })
}

// holds returns how many times the owner in ctx holds the lock, if it is one of
// the parties.
func (o *named) holds(ctx context.Context, parties ...RWHolder) int {
	l := o.client.find(ctx, o.kind, o.name)
	if l == nil {
		return 0
	}
	for _, p := range parties {
		if p.Owner == l.Owner() {
			return p.Holds
		}
	}
	return 0
}

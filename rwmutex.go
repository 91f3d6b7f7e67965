package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

var (
	_ Locker = (*RWMutex)(nil)
	_ Locker = (*RLocker)(nil)
)

// An RWMutex is a lock that many readers or one writer can hold. It is what
// Redisson calls RReadWriteLock, and shares its locks with it.
//
// A writer may also read: RLock with the context of a lease of Lock is granted
// beside it, and stays when the write lease is released, so that others can
// read as well (a downgrade); so does its context, unless the write lease is
// lost. The other way round is impossible: Lock with the
// context of a read lease returns [ErrUpgrade] at once, since it would wait for
// itself.
//
// Readers may keep a writer waiting as long as there is always one of them; see
// [WriterFirst].
type RWMutex struct {
	write writeLock
	read  RLocker
}

const writeKind = "write lock"

// writeLock is the side of the writers.
type writeLock struct {
	named
	wire *script.Write
}

// RWMutex returns the read/write mutex with that name. Names and options are as
// for [Client.Mutex].
func (c *Client) RWMutex(name string, opts ...Option) *RWMutex {
	o := newNamed(c, writeKind, name, opts)
	r := o
	r.kind, r.beside = "read lock", o.kind
	o.never = r.kind
	return &RWMutex{
		writeLock{o, script.NewWrite(name, o.set.writerFirst)},
		RLocker{r, script.NewRead(name)},
	}
}

// WriterFirst makes a writer that waits go before all readers that come later,
// so that a stream of readers cannot keep it out. It is for [Client.RWMutex].
// Only readers that use Holdfast respect that: Redisson's do not know of it.
// A reader that enters again what it holds is let in all the same.
//
// Readers have no share of their own: writers that lock again and again without
// a pause can keep readers out for as long as they do.
func WriterFirst() Option {
	return func(s *settings) { s.writerFirst = true }
}

// Name returns the name of the lock.
func (m *RWMutex) Name() string { return m.write.name }

// Lock waits until it holds the mutex alone, or until ctx is done. It is
// otherwise as [Mutex.Lock].
func (m *RWMutex) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.write.acquire(ctx, "lock", m.write.wire, engine.Forever, opts)
}

// TryLock takes the mutex if nobody holds it, as [Mutex.TryLock] does.
func (m *RWMutex) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.write.acquire(ctx, "try lock", m.write.wire, 0, opts)
}

// Do runs fn while holding the mutex alone, as [Mutex.Do] does.
func (m *RWMutex) Do(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, m, fn, opts)
}

// RLock waits until it may read, or until ctx is done: until no writer holds
// the mutex, except for the one whose context this is.
func (m *RWMutex) RLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.read.Lock(ctx, opts...)
}

// TryRLock takes the mutex to read if no writer holds it, and otherwise returns
// [ErrNotAcquired] at once, or after [Wait].
func (m *RWMutex) TryRLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.read.TryLock(ctx, opts...)
}

// RDo runs fn while holding the mutex to read, as [Mutex.Do] does.
func (m *RWMutex) RDo(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, &m.read, fn, opts)
}

// RLocker returns the mutex as its readers see it: a [Locker] whose Lock is
// RLock.
func (m *RWMutex) RLocker() *RLocker { return &m.read }

// An RWState is what the server says about an [RWMutex] at one moment.
type RWState struct {
	Writer  Party   // the zero Party if nobody writes
	Readers []Party // those whose time is not over; of more than about a thousand only some
}

// A Party is one of those who hold an [RWMutex].
type Party struct {
	Owner string        // of a lease ([Lease.Owner]) or of a Java thread
	Holds int           // how often the owner has entered it
	TTL   time.Duration // until it expires if it is not renewed; negative: never
}

// State asks the server who writes and who reads.
func (m *RWMutex) State(ctx context.Context) (RWState, error) { return m.read.State(ctx) }

// IsLocked asks the server whether anybody holds the mutex to write.
func (m *RWMutex) IsLocked(ctx context.Context) (bool, error) {
	s, err := m.State(ctx)
	return s.Writer.Owner != "", err
}

// HoldCount asks the server how often the owner that ctx carries holds the
// mutex to write.
func (m *RWMutex) HoldCount(ctx context.Context) (int, error) {
	s, err := m.State(ctx)
	return m.write.holds(ctx, s.Writer), err
}

// ForceUnlock takes the mutex from its writer, as [Mutex.ForceUnlock] does.
// Readers, and what the writer has taken to read, are left alone.
func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	w := &m.write
	return w.force(ctx, w.wire, func(ctx context.Context) (bool, error) { return w.wire.Force(ctx, w.client.driver) })
}

// Object returns the mutex as an object, to look at it or listen to it.
func (m *RWMutex) Object() *Object {
	o := m.write.asObject()
	o.kind = "read/write mutex"
	o.deep = "each reader has its own keys: use RWMutex.State"
	o.free = func(ctx context.Context) (bool, error) {
		written, err := m.ForceUnlock(ctx)
		if err != nil {
			return false, err
		}
		read, err := m.read.ForceUnlock(ctx)
		return written || read, err
	}
	return o
}

// An RLocker is an [RWMutex] as its readers see it.
type RLocker struct {
	named
	wire *script.Read
}

// Lock is [RWMutex.RLock].
func (r *RLocker) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return r.acquire(ctx, "lock", r.wire, engine.Forever, opts)
}

// TryLock is [RWMutex.TryRLock].
func (r *RLocker) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return r.acquire(ctx, "try lock", r.wire, 0, opts)
}

// Do is [RWMutex.RDo].
func (r *RLocker) Do(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, r, fn, opts)
}

// State asks the server who writes and who reads.
func (r *RLocker) State(ctx context.Context) (RWState, error) {
	var s RWState
	var own string
	if l := r.client.find(ctx, r.kind, r.name); l != nil {
		own = l.Owner()
	}
	err := r.ask(ctx, "inspect", true, func(ctx context.Context) error {
		seen, err := r.wire.Inspect(ctx, r.client.driver, own)
		s = RWState{Writer: Party{seen.Writer.Owner, seen.Writer.Count, seen.Writer.TTL}}
		for _, p := range seen.Readers {
			s.Readers = append(s.Readers, Party{p.Owner, p.Count, p.TTL})
		}
		return err
	})
	return s, err
}

// IsLocked asks the server whether anybody holds the mutex to read.
func (r *RLocker) IsLocked(ctx context.Context) (bool, error) {
	s, err := r.State(ctx)
	return len(s.Readers) > 0, err
}

// HoldCount asks the server how often the owner that ctx carries holds the
// mutex to read.
func (r *RLocker) HoldCount(ctx context.Context) (int, error) {
	s, err := r.State(ctx)
	return r.holds(ctx, s.Readers...), err
}

// ForceUnlock takes the mutex from all readers. Where a writer holds it, that
// one and what it has taken to read are left alone.
func (r *RLocker) ForceUnlock(ctx context.Context) (bool, error) {
	return r.force(ctx, r.wire, func(ctx context.Context) (bool, error) { return r.wire.Force(ctx, r.client.driver) })
}

// holds returns how often one of the parties, that of ctx, holds the lock.
func (o *named) holds(ctx context.Context, parties ...Party) int {
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

package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A LeasedSemaphore is a named number of permits that are taken as leases: the
// watchdog renews them, or [LeaseTime] fixes their length, and those of a
// process that is killed come back by themselves. It is what Redisson calls
// RPermitExpirableSemaphore, and shares its permits with it.
//
// It is the semaphore to use, unless Java peers use the plain one, see
// [Semaphore]. One permit makes it a mutex that whoever knows the id of the
// permit can release.
//
// Inside a process, permits go to those who came first, also to those who want
// many, also to more than there are; between processes there is no order. The
// context of a lease does not let its holder in again: whoever acquires twice
// takes twice.
//
// Time is the server's. A Java peer measures leases with its own clock, and may
// take a permit away too early if that is fast.
//
// A LeasedSemaphore is a name and no more; it is safe for concurrent use.
// [Client.LeasedSemaphore] makes one.
type LeasedSemaphore struct{ named }

// LeasedSemaphore returns the semaphore with that name, see [Client.Mutex] for
// what that may be. The options apply to all of its calls.
func (c *Client) LeasedSemaphore(name string, opts ...Option) *LeasedSemaphore {
	o := newNamed(c, "leased semaphore", name, opts)
	o.repeats = true
	return &LeasedSemaphore{o}
}

func (s *LeasedSemaphore) wire(n int) *script.Leased { return script.NewLeased(s.name, n) }

// TrySet sets the number of permits if the semaphore does not exist yet, and
// reports whether it did. An existing semaphore keeps its number, even if that
// differs: change it with [LeasedSemaphore.Set]. With a ttl other than zero the semaphore, and all
// permits with it, are gone when that is over; a holder then learns of it when
// it renews next.
func (s *LeasedSemaphore) TrySet(ctx context.Context, permits int, ttl time.Duration) (bool, error) {
	return trySet(ctx, &s.named, permits, ttl)
}

// Set changes how many permits there are, taken and free together, to that
// many, and creates a semaphore that does not exist. If more are taken already,
// [PermitState].Available is negative until enough of them have come back.
func (s *LeasedSemaphore) Set(ctx context.Context, permits int) error {
	if err := checkCount("the number of permits", permits, 0); err != nil {
		return s.fail("set", err)
	}
	return s.ask(ctx, "set", true, func(ctx context.Context) error {
		_, err := s.wire(permits).Resize(ctx, s.client.driver)
		return err
	})
}

// Add adds permits, or takes some away if permits is negative: also such that
// are not free. It creates a semaphore that does not exist.
func (s *LeasedSemaphore) Add(ctx context.Context, permits int) error {
	return addPermits(ctx, &s.named, permits)
}

// maxPermits is how many permits one lease may have: a script has to name each.
const maxPermits = 1000

// Acquire waits until it has taken that many permits, 1 to 1000, all at once, or
// until ctx is done. The error is as that of [Mutex.Lock]; what was granted too
// late for ctx is given back. The lease is one for all of them: [Lease.Permits]
// are their ids. A semaphore that does not exist, and the order of waiters, are
// treated as in [Semaphore.Acquire].
func (s *LeasedSemaphore) Acquire(ctx context.Context, permits int, opts ...Option) (*Lease, error) {
	return s.take(ctx, "acquire", permits, engine.Forever, opts)
}

// TryAcquire takes that many permits if they are free and nobody in this
// process waits for some, and otherwise returns [ErrNotAcquired] at once, or
// after [Wait]. [Remaining] tells when the next lease of others ends.
func (s *LeasedSemaphore) TryAcquire(ctx context.Context, permits int, opts ...Option) (*Lease, error) {
	return s.take(ctx, "try acquire", permits, 0, opts)
}

func (s *LeasedSemaphore) take(ctx context.Context, op string, permits int, wait time.Duration, opts []Option) (*Lease, error) {
	if permits < 1 || permits > maxPermits {
		return nil, s.fail(op, invalid("the number of permits is %d: choose between 1 and %d", permits, maxPermits))
	}
	return s.acquire(ctx, op, s.wire(permits), wait, opts)
}

// Do runs fn while holding that many permits, as [Mutex.Do] does.
func (s *LeasedSemaphore) Do(ctx context.Context, permits int, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, s.Locker(permits), fn, opts)
}

// Locker returns a lock that is held by whoever has that many permits, for what
// takes any lock: [DoValue], [SyncLocker]. [Multi] does not take it.
func (s *LeasedSemaphore) Locker(permits int) Locker { return &permitLocker{s, permits} }

type permitLocker struct {
	*LeasedSemaphore
	permits int
}

func (l *permitLocker) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return l.Acquire(ctx, l.permits, opts...)
}

func (l *permitLocker) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return l.TryAcquire(ctx, l.permits, opts...)
}

// A PermitState is what the server says about permits at one moment.
type PermitState struct {
	Available int // free; negative if there are fewer than are taken
	Taken     int
}

// State asks the server how many permits are free and how many are taken.
func (s *LeasedSemaphore) State(ctx context.Context) (PermitState, error) {
	seen, err := s.inspect(ctx, "")
	return PermitState{Available: seen.Free, Taken: seen.Taken}, err
}

// Available returns how many permits are free.
func (s *LeasedSemaphore) Available(ctx context.Context) (int, error) {
	seen, err := s.inspect(ctx, "")
	return seen.Free, err
}

func (s *LeasedSemaphore) inspect(ctx context.Context, id string) (script.PermitState, error) {
	var seen script.PermitState
	err := s.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		seen, err = s.wire(0).Inspect(ctx, s.client.driver, id)
		return err
	})
	return seen, err
}

// ReleaseIDs gives back permits by their ids, for whoever was handed those
// instead of a lease: by another process, or by Java. It gives back all of them
// or none: if one is not taken, or its lease is over, the error matches
// [ErrNotHeld]. An id is 32 hexadecimal digits; the error of anything else
// matches [ErrInvalid], since no permit can have it. The holder of a lease on one of them learns that it is lost when
// it renews next.
func (s *LeasedSemaphore) ReleaseIDs(ctx context.Context, ids ...string) error {
	row, err := parseIDs(ids)
	if err != nil {
		return s.fail("release", err)
	}
	back := func(request string) driver.Call { return s.wire(0).Return(request, row) }
	held, err := s.count(ctx, "release", back, back)
	if err == nil && held == 0 {
		err = s.fail("release", ErrNotHeld)
	}
	return err
}

// ExtendID makes the server keep a permit for at least d from now on, as
// [Lease.Extend] does for a lease. The error matches [ErrNotHeld] if the permit
// is not taken.
func (s *LeasedSemaphore) ExtendID(ctx context.Context, id string, d time.Duration) error {
	row, err := parseIDs([]string{id})
	if err == nil {
		err = checkExtension(d)
	}
	if err != nil {
		return s.fail("extend", err)
	}
	held := false
	err = s.ask(ctx, "extend", true, func(ctx context.Context) error {
		held, err = script.Prolong(ctx, s.client.driver, s.wire(0).HoldingOf(row), d.Truncate(time.Millisecond))
		return err
	})
	if err == nil && !held {
		err = s.fail("extend", ErrNotHeld)
	}
	return err
}

// RemainingID returns how long a permit is still taken; negative: it has no end,
// as Java may take it. The error matches [ErrNotHeld] if it is not taken.
func (s *LeasedSemaphore) RemainingID(ctx context.Context, id string) (time.Duration, error) {
	row, err := parseIDs([]string{id})
	if err != nil {
		return 0, s.fail("inspect", err)
	}
	seen, err := s.inspect(ctx, row)
	if err == nil && !seen.Held {
		err = s.fail("inspect", ErrNotHeld)
	}
	return seen.TTL, err
}

// Object returns the semaphore as an object, with its permits. When it is
// deleted, renamed, or comes to its end, holders lose their permits, and learn
// of it when they renew next.
func (s *LeasedSemaphore) Object() *Object { return s.asObject() }

func parseIDs(ids []string) (row string, err error) {
	if len(ids) == 0 || len(ids) > maxPermits {
		return "", invalid("%d permit ids: pass between 1 and %d", len(ids), maxPermits)
	}
	row, ok := script.ParseIDs(ids)
	if !ok {
		return "", invalid("a permit id must have 32 hexadecimal digits")
	}
	return row, nil
}

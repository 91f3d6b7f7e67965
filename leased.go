package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A LeasedSemaphore is a semaphore whose permits are held as leases. The watchdog
// renews the leases, or [LeaseTime] sets a fixed length. The permits of a killed
// process become free when their leases expire. It shares its permits with
// RPermitExpirableSemaphore in Redisson.
//
// Clients queue at the server. A release grants permits to the first of them that wants
// no more than are free. The context of a lease does not enter the semaphore again:
// each acquisition takes more permits.
//
// Leases are measured with the server's clock. A Java peer uses its own: if that is
// fast, the peer may free a permit too early.
type LeasedSemaphore struct{ named }

const leasedKind = "leased semaphore"

// LeasedSemaphore returns the semaphore with the given name, see [Client.Mutex].
// [WithPermits] declares how many permits it has.
func (c *Client) LeasedSemaphore(name string, opts ...PermitOption) *LeasedSemaphore {
	o := newNamed(c, leasedKind, name, with(settings{}, opts))
	o.repeats = true
	s := &LeasedSemaphore{o}
	s.creates = s.declare()
	return s
}

func (s *LeasedSemaphore) wire(n int) *script.Leased { return script.NewLeased(s.name, n) }

// TrySet is like [Semaphore.TrySet]. If ttl is not zero, the semaphore and all of its
// permits are deleted after ttl. The holders notice the loss at their next renewal. To
// change the number later, use [LeasedSemaphore.Set].
func (s *LeasedSemaphore) TrySet(ctx context.Context, permits int, ttl time.Duration) (bool, error) {
	return trySet(ctx, &s.named, permits, ttl)
}

// Set sets the total number of permits, taken and free. It creates the semaphore if it
// does not exist. If more permits are taken, [PermitState].Available is negative until
// enough of them are released.
func (s *LeasedSemaphore) Set(ctx context.Context, permits int) error {
	if err := checkCount("the number of permits", permits, 0); err != nil {
		return s.fail("set", err)
	}
	return s.ask(ctx, "set", true, func(ctx context.Context) error {
		_, err := s.wire(permits).Resize(ctx, s.client.driver)
		return err
	})
}

// Add is like [Semaphore.Add].
func (s *LeasedSemaphore) Add(ctx context.Context, permits int) error {
	return addPermits(ctx, &s.named, permits)
}

// maxPermits is the maximum number of permits of one lease, because a script
// has to name each of them.
const maxPermits = 1000

// Acquire waits until it can acquire all of the given permits together, between 1 and
// 1000, or until ctx is done. One lease holds them all, and [Lease.PermitIDs] returns
// their ids. Otherwise it is like [Semaphore.Acquire], but the clients queue at the
// server.
func (s *LeasedSemaphore) Acquire(ctx context.Context, permits int, opts ...LockOption) (*Lease, error) {
	return s.take(ctx, "acquire", permits, engine.Forever, opts)
}

// TryAcquire is like [Semaphore.TryAcquire]. [Remaining] returns how long it takes
// until the next lease of another holder ends.
func (s *LeasedSemaphore) TryAcquire(ctx context.Context, permits int, opts ...LockOption) (*Lease, error) {
	return s.take(ctx, "try acquire", permits, 0, opts)
}

func (s *LeasedSemaphore) take(ctx context.Context, op string, permits int, wait time.Duration, opts []LockOption) (*Lease, error) {
	if permits < 1 || permits > maxPermits {
		return nil, s.fail(op, invalid("the number of permits is %d: choose between 1 and %d", permits, maxPermits))
	}
	if err := s.set.enough(permits); err != nil {
		return nil, s.fail(op, err)
	}
	return s.acquire(ctx, op, s.wire(permits), wait, opts)
}

// Do runs fn while holding the given number of permits, like [Mutex.Do].
func (s *LeasedSemaphore) Do(ctx context.Context, permits int, fn func(context.Context) error, opts ...LockOption) error {
	return s.Locker(permits).Do(ctx, fn, opts...)
}

// Locker returns a [Locker] whose Lock acquires the given number of permits, for
// [DoValue] and [SyncLocker].
func (s *LeasedSemaphore) Locker(permits int) Locker { return &permitLocker{s, permits} }

type permitLocker struct {
	*LeasedSemaphore
	permits int
}

func (l *permitLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return l.Acquire(ctx, l.permits, opts...)
}

func (l *permitLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return l.TryAcquire(ctx, l.permits, opts...)
}

func (l *permitLocker) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, l, fn, opts)
}

// A PermitState is the state of the permits on the server at one moment.
type PermitState struct {
	Available int // the number of free permits; negative if more are taken than exist
	Taken     int // the number of taken permits
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

// ReleaseIDs releases permits by their ids, all of them or none. Use it if another
// process, for example in Java, has passed on ids instead of a lease. The error matches
// [ErrNotHeld] if a permit is not taken or its lease has expired, and [ErrInvalid] if
// an id does not have 32 hexadecimal digits. If a lease holds one of the permits, its
// holder notices the loss at its next renewal.
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
	s.observeRelease(ctx, len(ids), err)
	return err
}

// ExtendID makes the server keep a permit for at least d from now on, like
// [Lease.Extend]. The error matches [ErrNotHeld] if the permit is not taken.
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

// RemainingID returns how long a permit is still taken. The result is negative if the
// permit does not expire, which is possible for permits of Java. The error matches
// [ErrNotHeld] if the permit is not taken.
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

package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are the contract of leased permits, drawn from
// Redisson's own tests. The number in a test's name is its id. What Redisson
// does by the id of a permit is done by a lease here, or by ReleaseIDs,
// ExtendID and RemainingID.

// wantNotHeld checks that err says so.
func wantNotHeld(tb testing.TB, what string, err error) {
	tb.Helper()
	if !errors.Is(err, holdfast.ErrNotHeld) {
		tb.Errorf("%s: error %v, want ErrNotHeld", what, err)
	}
}

// unknownID is the id of a permit that does not exist.
var unknownID = strings.Repeat("0a", 16)

func TestPE02Extend(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 1)
	wantNotHeld(t, "extending an unknown id", sem.ExtendID(t.Context(), unknownID, time.Minute))
	l := locktest.Obtain(t, sem, 1, holdfast.LeaseTime(4*time.Second))
	id := l.PermitIDs()[0]
	const extension = 5 * time.Second
	start := time.Now()
	if err := sem.ExtendID(t.Context(), id, extension); err != nil {
		t.Fatal(err)
	}
	if left, err := sem.RemainingID(t.Context(), id); left > extension || left < time.Second || err != nil {
		t.Errorf("%v left, %v", left, err)
	}
	next, err := sem.TryAcquire(t.Context(), 1, holdfast.Wait(3*extension))
	took, ran := time.Since(start), locktest.Took(start)
	if err != nil {
		t.Fatal(err)
	}
	if took < extension-5*time.Millisecond || ran > extension+locktest.Late {
		t.Errorf("free %v after an extension by %v", took, extension)
	}
	wantNotHeld(t, "extending what is over", sem.ExtendID(t.Context(), id, time.Minute))
	locktest.Release(t, next)
	wantNotHeld(t, "extending what was given back", sem.ExtendID(t.Context(), next.PermitIDs()[0], time.Minute))
}

func TestPE03Missing(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	sem := locktest.Open(t, locktest.Enduring(s.URL())).LeasedSemaphore(locktest.Name(t))
	locktest.WantPermits(t, sem, 0, 0)
	locktest.WantRefused(t, sem.Locker(1))
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys %q", keys)
	}
}

// counting takes some permits for a moment and some for long, and has them
// counted before and after that moment.
func counting(t *testing.T, count func(holdfast.PermitState) int, atFirst, between, afterwards int) {
	t.Helper()
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 8)
	want := func(want int) {
		t.Helper()
		if st, err := sem.State(t.Context()); count(st) != want || err != nil {
			t.Errorf("%+v, %v; want %d", st, err, want)
		}
	}
	locktest.Obtain(t, sem, 1, holdfast.LeaseTime(4*time.Second))
	locktest.Obtain(t, sem, 2, holdfast.LeaseTime(4*time.Second))
	stays := locktest.Obtain(t, sem, 2, holdfast.LeaseTime(time.Minute))
	want(atFirst)
	locktest.Eventually(t, 20*time.Second, fmt.Sprint(between, " permits count"), func() bool {
		st, err := sem.State(t.Context())
		return count(st) == between && err == nil
	})
	locktest.Release(t, stays)
	want(afterwards)
	locktest.Release(t, locktest.Obtain(t, sem, 8)) // all of them, in fact
	want(afterwards)
}

func TestPE04Available(t *testing.T) {
	counting(t, func(st holdfast.PermitState) int { return st.Available }, 3, 6, 8)
}

func TestPE05Taken(t *testing.T) {
	counting(t, func(st holdfast.PermitState) int { return st.Taken }, 5, 2, 0)
}

func TestPE06Total(t *testing.T) {
	counting(t, func(st holdfast.PermitState) int { return st.Available + st.Taken }, 8, 8, 8)
}

func TestPE07TTL(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	sem := locktest.Open(t, locktest.Enduring(s.URL()), holdfast.Options{WatchdogTimeout: 3 * time.Second, RenewEvery: 100 * time.Millisecond}).LeasedSemaphore(locktest.Name(t))
	if set, err := sem.TrySet(t.Context(), 3, 4*time.Second); !set || err != nil {
		t.Fatal(set, err)
	}
	l := locktest.Obtain(t, sem, 2)
	locktest.Eventually(t, 10*time.Second, "no key left", func() bool {
		return !slices.ContainsFunc(s.Keys(t), func(key string) bool {
			return !strings.HasPrefix(key, "holdfast:once:") // ends by itself
		})
	})
	locktest.WantPermits(t, sem, 0, 0)
	select {
	case <-l.Context().Done():
	case <-time.After(10 * time.Second):
		t.Error("the holder was not told")
	}
	locktest.WantLost(t, l, holdfast.LossNotOwner)
	locktest.WantPermits(t, sem, 0, 0)
}

// permitAfterExpiry checks that a waiter gets a permit that is never released as soon
// as its lease ends at the server, and not before.
func permitAfterExpiry(t *testing.T, take func(t *testing.T, sem *holdfast.LeasedSemaphore, lease holdfast.LockOption) locktest.Outcome) {
	t.Helper()
	t.Parallel()
	s := redistest.Shared(t)
	holder := locktest.Open(t, s.URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		const lease = 10 * time.Second
		sem := locktest.NewLeasedSemaphore(t, holder, 1)
		began := locktest.ServerTime(t, s)
		old := locktest.Obtain(t, sem, 1, holdfast.LeaseTime(time.Second))
		// If the machine stands still it may be over and forgotten.
		end := max(locktest.PermitExpiry(t, s, sem, old.PermitIDs()[0]), began+1000)
		got := take(t, c.LeasedSemaphore(sem.Name()), holdfast.LeaseTime(lease))
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if old.Valid() {
			t.Error("both leases are valid")
		}
		after := locktest.PermitExpiry(t, s, sem, got.Lease.PermitIDs()[0]) - lease.Milliseconds() - end
		if after < 0 || after > locktest.Late.Milliseconds() {
			t.Errorf("entered %d ms after the lease ended, want between 0 and %v", after, locktest.Late)
		}
		locktest.WantLost(t, old, holdfast.LossExpired)
		locktest.WantPermits(t, sem, 0, 1)
		locktest.Release(t, got.Lease)
		locktest.WantPermits(t, sem, 1, 0)
	})
}

func TestPE08WaiterEntersWhenLeaseEnds(t *testing.T) {
	permitAfterExpiry(t, func(t *testing.T, sem *holdfast.LeasedSemaphore, lease holdfast.LockOption) locktest.Outcome {
		return locktest.AwaitAfter(t, time.Second, locktest.Background(t.Context(), sem.Locker(1), lease))
	})
}

func TestPE09TimedTryOutlivesLease(t *testing.T) {
	permitAfterExpiry(t, func(t *testing.T, sem *holdfast.LeasedSemaphore, lease holdfast.LockOption) locktest.Outcome {
		l, err := sem.TryAcquire(t.Context(), 1, lease, holdfast.Wait(time.Second+locktest.Late))
		return locktest.Outcome{Lease: l, Err: err}
	})
}

func TestPE10SetOnce(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 10)
	locktest.WantPermits(t, sem, 10, 0)
	if set, err := sem.TrySet(t.Context(), 15, 0); set || err != nil {
		t.Errorf("set twice: %v, %v", set, err)
	}
	locktest.WantPermits(t, sem, 10, 0)
	l := locktest.Obtain(t, sem, 10)
	if set, err := sem.TrySet(t.Context(), 15, time.Minute); set || err != nil {
		t.Errorf("set while all are taken: %v, %v", set, err)
	}
	locktest.WantPermits(t, sem, 0, 10)
	locktest.Release(t, l)
}

func TestPE11Set(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	sem := c.LeasedSemaphore(locktest.Name(t))
	set := func(permits, available, taken int) {
		t.Helper()
		if err := sem.Set(t.Context(), permits); err != nil {
			t.Fatal(err)
		}
		locktest.WantPermits(t, sem, available, taken)
	}
	set(3, 3, 0)
	set(0, 0, 0)
	set(2, 2, 0)
	one, two := locktest.Obtain(t, sem, 1), locktest.Obtain(t, sem, 1)
	waiter := locktest.Background(t.Context(), c.LeasedSemaphore(sem.Name()).Locker(2))
	set(3, 1, 2)
	if err := sem.Set(t.Context(), 4); err != nil { // enough for the waiter
		t.Fatal(err)
	}
	three := locktest.Entered(t, waiter)
	locktest.WantPermits(t, sem, 0, 4)
	set(3, -1, 4)
	locktest.Release(t, one)
	locktest.WantPermits(t, sem, 0, 3)
	locktest.WantRefused(t, sem.Locker(1))
	locktest.Release(t, two)
	locktest.WantPermits(t, sem, 1, 2)
	locktest.Release(t, three)
	locktest.WantPermits(t, sem, 3, 0)
}

func TestPE12Add(t *testing.T) {
	t.Parallel()
	sem := locktest.Open(t, redistest.Shared(t).URL()).LeasedSemaphore(locktest.Name(t))
	add := func(permits, available, taken int) {
		t.Helper()
		if err := sem.Add(t.Context(), permits); err != nil {
			t.Fatal(err)
		}
		locktest.WantPermits(t, sem, available, taken)
	}
	add(10, 10, 0)
	add(-5, 5, 0)
	l := locktest.Obtain(t, sem, 5)
	add(5, 5, 5)
	add(-10, -5, 5)
	locktest.WantRefused(t, sem.Locker(1))
	locktest.Release(t, l)
	locktest.WantPermits(t, sem, 0, 0)
	waiter := locktest.Background(t.Context(), sem.Locker(3))
	add(2, 2, 0)
	if err := sem.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	locktest.Release(t, locktest.Entered(t, waiter))
	locktest.WantPermits(t, sem, 3, 0)
}

func TestPE13ReleasedByAnother(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	holder := locktest.Open(t, s.URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		sem := locktest.NewLeasedSemaphore(t, holder, 1)
		l := locktest.Obtain(t, sem, 1)
		waiter := locktest.Background(t.Context(), c.LeasedSemaphore(sem.Name()).Locker(1))
		locktest.AwaitListener(t, s, "redisson_sc:{"+sem.Name()+"}")
		freed := make(chan error, 1)
		go func() { freed <- c.LeasedSemaphore(sem.Name()).ReleaseIDs(context.Background(), l.PermitIDs()...) }()
		got := locktest.Entered(t, waiter)
		if err := <-freed; err != nil {
			t.Error(err)
		}
		for _, id := range append(l.PermitIDs(), got.PermitIDs()...) {
			if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
				t.Errorf("id %q", id)
			}
		}
		locktest.WantLost(t, l, holdfast.LossNotOwner)
		locktest.WantPermits(t, sem, 0, 1)
		locktest.Release(t, got)
	})
}

func TestPE14ReleaseList(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 10)
	ids := locktest.Obtain(t, sem, 6).PermitIDs()
	if len(ids) != 6 {
		t.Fatalf("%d ids", len(ids))
	}
	locktest.WantPermits(t, sem, 4, 6)
	if err := sem.ReleaseIDs(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	locktest.WantPermits(t, sem, 10, 0)
}

func TestPE15TimedTry(t *testing.T) {
	t.Parallel()
	holder := locktest.Open(t, redistest.Shared(t).URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		l := locktest.Obtain(t, locktest.NewLeasedSemaphore(t, holder, 1), 1)
		sem := c.LeasedSemaphore(l.Name())
		if _, err := sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("immediate try: %v", err)
		}
		waiter := locktest.Background(t.Context(), sem.Locker(1), holdfast.Wait(time.Minute))
		locktest.WantWaiting(t, c, waiter)
		locktest.Release(t, l)
		locktest.Release(t, locktest.Entered(t, waiter))
	})
}

func TestPE16Batches(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 10)
	four, five := locktest.Obtain(t, sem, 4), locktest.Obtain(t, sem, 5)
	locktest.WantPermits(t, sem, 1, 9)
	locktest.WantRefused(t, sem.Locker(2))
	locktest.Release(t, four)
	locktest.WantPermits(t, sem, 5, 5)
	locktest.Release(t, five)
	locktest.WantPermits(t, sem, 10, 0)
}

func TestPE17UnknownID(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 2)
	l := locktest.Obtain(t, sem, 1)
	wantNotHeld(t, "releasing an unknown id", sem.ReleaseIDs(t.Context(), unknownID))
	for _, bad := range []string{"", "1234", l.PermitIDs()[0] + "00", strings.Repeat("x", 32)} {
		if err := sem.ReleaseIDs(t.Context(), bad); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("releasing %q: %v", bad, err)
		}
	}
	if err := sem.ReleaseIDs(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("releasing nothing: %v", err)
	}
	locktest.WantPermits(t, sem, 1, 1)
	locktest.Release(t, l)
}

func TestPE18ExpiredID(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 1)
	l := locktest.Obtain(t, sem, 1, holdfast.LeaseTime(100*time.Millisecond))
	locktest.AwaitPermits(t, sem, 1, 0)
	wantNotHeld(t, "releasing an expired id", sem.ReleaseIDs(t.Context(), l.PermitIDs()...))
	locktest.WantPermits(t, sem, 1, 0)
	locktest.WantLost(t, l, holdfast.LossExpired)
	locktest.WantFree(t, sem.Locker(1))
	locktest.WantPermits(t, sem, 1, 0)
}

// contendForOne has a single permit taken that often through every semaphore,
// all at the same time.
func contendForOne(t *testing.T, sems []*holdfast.LeasedSemaphore, rounds int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sec := locktest.NewSection(sems[0].Name())
	locktest.Parallel(len(sems), func(i int) {
		for range rounds {
			l, err := sems[i].Acquire(ctx, 1)
			if err != nil {
				t.Error(err)
				return
			}
			sec.Visit(l, 0)
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	sec.Check(t, len(sems)*rounds)
	locktest.WantPermits(t, sems[0], 1, 0)
}

func TestPE19OneClient(t *testing.T) {
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 1)
	sems := make([]*holdfast.LeasedSemaphore, 100)
	for i := range sems {
		sems[i] = sem
	}
	contendForOne(t, sems, 1)
}

func TestPE20SixteenClients(t *testing.T) {
	url := redistest.Shared(t).URL()
	sems := []*holdfast.LeasedSemaphore{locktest.NewLeasedSemaphore(t, locktest.Open(t, url), 1)}
	for range 15 {
		sems = append(sems, locktest.Open(t, url).LeasedSemaphore(sems[0].Name()))
	}
	contendForOne(t, sems, locktest.Often(100))
}

// inBackground acquires twice as many permits as there are, in the background, and
// releases the first ones by their ids.
func inBackground(t *testing.T, permits int) {
	t.Helper()
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	sem := locktest.NewLeasedSemaphore(t, c, permits)
	start := time.Now()
	l := locktest.Entered(t, locktest.Background(t.Context(), sem.Locker(permits)))
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("taken after %v although free", took)
	}
	if n := len(l.PermitIDs()); n != permits {
		t.Errorf("%d permits", n)
	}
	waiter := locktest.Background(t.Context(), sem.Locker(permits))
	locktest.WantWaiting(t, c, waiter)
	locktest.WantPermits(t, sem, 0, permits)
	if err := sem.ReleaseIDs(t.Context(), l.PermitIDs()...); err != nil {
		t.Error(err)
	}
	locktest.Release(t, locktest.Entered(t, waiter))
	locktest.WantPermits(t, sem, permits, 0)
}

func TestPE21Background(t *testing.T)      { inBackground(t, 1) }
func TestPE22BackgroundBatch(t *testing.T) { inBackground(t, 2) }
func TestPE23BackgroundMany(t *testing.T)  { inBackground(t, 20) }

func TestPE24PartialLists(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 10)
	ids := locktest.Obtain(t, sem, 10).PermitIDs()
	for _, part := range [][]string{ids[:3], ids[3:4], ids[4:8]} {
		if err := sem.ReleaseIDs(t.Context(), part...); err != nil {
			t.Error(err)
		}
	}
	locktest.WantPermits(t, sem, 8, 2)
	wantNotHeld(t, "releasing the whole list", sem.ReleaseIDs(t.Context(), ids...))
	locktest.WantPermits(t, sem, 8, 2)
	if err := sem.ReleaseIDs(t.Context(), ids[8:]...); err != nil {
		t.Error(err)
	}
	wantNotHeld(t, "releasing the whole list again", sem.ReleaseIDs(t.Context(), ids...))
	locktest.WantPermits(t, sem, 10, 0)
}

func TestPE25BatchExpires(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 4)
	const lease = 3 * time.Second
	l := locktest.Obtain(t, sem, 3, holdfast.LeaseTime(lease))
	locktest.WantRefused(t, sem.Locker(2))
	next, err := sem.TryAcquire(t.Context(), 4, holdfast.Wait(lease+locktest.Late))
	if err != nil {
		t.Fatal(err)
	}
	locktest.WantLost(t, l, holdfast.LossExpired)
	locktest.WantPermits(t, sem, 0, 4)
	locktest.Release(t, next)
	locktest.WantPermits(t, sem, 4, 0)
}

func TestPE26LateBatchRelease(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 3)
	l := locktest.Obtain(t, sem, 3, holdfast.LeaseTime(100*time.Millisecond))
	locktest.AwaitPermits(t, sem, 3, 0)
	wantNotHeld(t, "a late release", sem.ReleaseIDs(t.Context(), l.PermitIDs()...))
	locktest.WantPermits(t, sem, 3, 0)
	next := locktest.Obtain(t, sem, 2)
	wantNotHeld(t, "a later one", sem.ReleaseIDs(t.Context(), l.PermitIDs()...))
	locktest.WantPermits(t, sem, 1, 2)
	locktest.Release(t, next)
}

func TestPE27AllOrNothing(t *testing.T) {
	t.Parallel()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, redistest.Shared(t).URL()), 5)
	ids := locktest.Obtain(t, sem, 2, holdfast.LeaseTime(time.Minute)).PermitIDs()
	expired := locktest.Obtain(t, sem, 1, holdfast.LeaseTime(100*time.Millisecond)).PermitIDs()[0]
	back := locktest.Obtain(t, sem, 1)
	locktest.Release(t, back)
	locktest.AwaitPermits(t, sem, 3, 2)
	for what, bad := range map[string]string{"expired": expired, "released": back.PermitIDs()[0], "unknown": unknownID} {
		for at := range 3 {
			list := append([]string{}, ids...)
			list = append(list[:at], append([]string{bad}, list[at:]...)...)
			wantNotHeld(t, fmt.Sprintf("a list with an id that is %s at %d", what, at), sem.ReleaseIDs(t.Context(), list...))
			locktest.WantPermits(t, sem, 3, 2)
		}
	}
	if err := sem.ReleaseIDs(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	locktest.WantPermits(t, sem, 5, 0)
}

func TestPE28Remaining(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, s.URL()), 3)
	if _, err := sem.RemainingID(t.Context(), unknownID); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("an unknown id: %v", err)
	}
	locktest.JavaTakes(t, s, sem, strings.Repeat("j", 16), locktest.JavaForever)
	if left, err := sem.RemainingID(t.Context(), strings.Repeat("6a", 16)); left >= 0 || err != nil {
		t.Errorf("what Java has without an end: %v, %v", left, err)
	}
	l := locktest.Obtain(t, sem, 1, holdfast.LeaseTime(10*time.Second))
	first, err := sem.RemainingID(t.Context(), l.PermitIDs()[0])
	if first > 10*time.Second || first < 5*time.Second || err != nil {
		t.Errorf("%v, %v", first, err)
	}
	locktest.Eventually(t, 20*time.Second, "less remains", func() bool {
		left, err := sem.RemainingID(t.Context(), l.PermitIDs()[0])
		return left < first-50*time.Millisecond && err == nil
	})
	locktest.Release(t, l)
	if _, err := sem.RemainingID(t.Context(), l.PermitIDs()[0]); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("a released id: %v", err)
	}
}

// oneAfterTheOther has two clients take some of two permits for a while.
func oneAfterTheOther(t *testing.T, wants ...int) {
	t.Helper()
	t.Parallel()
	url := redistest.Shared(t).URL()
	sem := locktest.NewLeasedSemaphore(t, locktest.Open(t, url), 2)
	sec := locktest.NewSection(sem.Name())
	locktest.Parallel(2, func(i int) {
		l, err := locktest.Open(t, url).LeasedSemaphore(sem.Name()).TryAcquire(t.Context(), wants[i], holdfast.Wait(2*locktest.Late))
		if err != nil {
			t.Error(err)
			return
		}
		sec.Visit(l, 300*time.Millisecond)
		locktest.Release(t, l)
	})
	sec.Check(t, 2)
	locktest.WantPermits(t, sem, 2, 0)
}

func TestPE29TwoWantAll(t *testing.T)   { oneAfterTheOther(t, 2, 2) }
func TestPE30OneWantsHalf(t *testing.T) { oneAfterTheOther(t, 1, 2) }

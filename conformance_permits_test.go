package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are the contract of leased permits, drawn from
// Redisson's own tests. The number in a test's name is its id. What Redisson
// does by the id of a permit is done by a lease here, or by ReleaseIDs,
// ExtendID and RemainingID.

// permitsOf returns a semaphore with a name of its own and so many permits.
func permitsOf(tb testing.TB, c *holdfast.Client, permits int) *holdfast.LeasedSemaphore {
	tb.Helper()
	sem := c.LeasedSemaphore(name(tb))
	if set, err := sem.TrySet(context.Background(), permits, 0); !set || err != nil {
		tb.Fatalf("TrySet: %v, %v", set, err)
	}
	return sem
}

// obtain takes permits, or ends the test.
func obtain(tb testing.TB, sem *holdfast.LeasedSemaphore, permits int, opts ...holdfast.Option) *holdfast.Lease {
	tb.Helper()
	return lock(tb, context.Background(), sem.Locker(permits), opts...)
}

// wantPermits checks how many permits are free, and how many taken.
func wantPermits(tb testing.TB, sem *holdfast.LeasedSemaphore, available, taken int) {
	tb.Helper()
	st, err := sem.State(context.Background())
	if want := (holdfast.PermitState{Available: available, Taken: taken}); st != want || err != nil {
		tb.Errorf("%+v, %v; want %+v", st, err, want)
	}
	if n, err := sem.Available(context.Background()); n != available || err != nil {
		tb.Errorf("%d available, %v; want %d", n, err, available)
	}
}

// wantNotHeld checks that err says so.
func wantNotHeld(tb testing.TB, what string, err error) {
	tb.Helper()
	if !errors.Is(err, holdfast.ErrNotHeld) {
		tb.Errorf("%s: error %v, want ErrNotHeld", what, err)
	}
}

// nobodysID is the id of a permit that nobody has.
var nobodysID = strings.Repeat("0a", 16)

// ends returns when the lease of a permit ends, in milliseconds of the server's
// clock, or 0 if the server has forgotten it.
func ends(tb testing.TB, s *redistest.Server, sem *holdfast.LeasedSemaphore, id string) int64 {
	tb.Helper()
	raw := make([]byte, 16)
	for i := range raw {
		n, err := strconv.ParseUint(id[2*i:2*i+2], 16, 8)
		if err != nil {
			tb.Fatal(err)
		}
		raw[i] = byte(n)
	}
	score, ok := s.Do(tb, "ZSCORE", "{"+sem.Name()+"}:timeout", string(raw)).(string)
	if !ok {
		return 0
	}
	end, err := strconv.ParseInt(score, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return end
}

func TestPE02Extend(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 1)
	wantNotHeld(t, "extending an unknown id", sem.ExtendID(t.Context(), nobodysID, time.Minute))
	l := obtain(t, sem, 1, holdfast.LeaseTime(4*time.Second))
	id := l.Permits()[0]
	const extension = 5 * time.Second
	start := time.Now()
	if err := sem.ExtendID(t.Context(), id, extension); err != nil {
		t.Fatal(err)
	}
	if left, err := sem.RemainingID(t.Context(), id); left > extension || left < time.Second || err != nil {
		t.Errorf("%v left, %v", left, err)
	}
	next, err := sem.TryAcquire(t.Context(), 1, holdfast.Wait(3*extension))
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	if took < extension-5*time.Millisecond || took > extension+late {
		t.Errorf("free %v after an extension by %v", took, extension)
	}
	wantNotHeld(t, "extending what is over", sem.ExtendID(t.Context(), id, time.Minute))
	release(t, next)
	wantNotHeld(t, "extending what was given back", sem.ExtendID(t.Context(), next.Permits()[0], time.Minute))
}

func TestPE03Missing(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	sem := open(t, enduring(s.URL())).LeasedSemaphore(name(t))
	wantPermits(t, sem, 0, 0)
	wantRefused(t, sem.Locker(1))
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys %q", keys)
	}
}

// counting takes some permits for a moment and some for long, and has them
// counted before and after that moment.
func counting(t *testing.T, count func(holdfast.PermitState) int, atFirst, between, afterwards int) {
	t.Helper()
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 8)
	want := func(want int) {
		t.Helper()
		if st, err := sem.State(t.Context()); count(st) != want || err != nil {
			t.Errorf("%+v, %v; want %d", st, err, want)
		}
	}
	obtain(t, sem, 1, holdfast.LeaseTime(4*time.Second))
	obtain(t, sem, 2, holdfast.LeaseTime(4*time.Second))
	stays := obtain(t, sem, 2, holdfast.LeaseTime(time.Minute))
	want(atFirst)
	time.Sleep(4100 * time.Millisecond)
	want(between)
	release(t, stays)
	want(afterwards)
	release(t, obtain(t, sem, 8)) // all of them, in fact
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
	sem := open(t, enduring(s.URL()), holdfast.Options{WatchdogTimeout: 3 * time.Second, RenewEvery: 100 * time.Millisecond}).LeasedSemaphore(name(t))
	if set, err := sem.TrySet(t.Context(), 3, 4*time.Second); !set || err != nil {
		t.Fatal(set, err)
	}
	l := obtain(t, sem, 2)
	eventually(t, 10*time.Second, "no key left", func() bool {
		return !slices.ContainsFunc(s.Keys(t), func(key string) bool {
			return !strings.HasPrefix(key, "holdfast:once:") // ends by itself
		})
	})
	wantPermits(t, sem, 0, 0)
	select {
	case <-l.Context().Done():
	case <-time.After(10 * time.Second):
		t.Error("the holder was not told")
	}
	wantLost(t, l, holdfast.LossNotOwner)
	wantPermits(t, sem, 0, 0)
}

// permitAfterExpiry checks that a waiter gets a permit that is never given back
// as soon as its lease ends at the server, and not before.
func permitAfterExpiry(t *testing.T, take func(t *testing.T, sem *holdfast.LeasedSemaphore, lease holdfast.Option) outcome) {
	t.Helper()
	t.Parallel()
	s := redistest.Shared(t)
	holder := open(t, s.URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		const lease = 10 * time.Second
		sem := permitsOf(t, holder, 1)
		began := serverTime(t, s)
		old := obtain(t, sem, 1, holdfast.LeaseTime(time.Second))
		// If the machine stands still it may be over and forgotten.
		end := max(ends(t, s, sem, old.Permits()[0]), began+1000)
		got := take(t, c.LeasedSemaphore(sem.Name()), holdfast.LeaseTime(lease))
		if got.err != nil {
			t.Fatal(got.err)
		}
		if old.Valid() {
			t.Error("both leases are valid")
		}
		after := ends(t, s, sem, got.lease.Permits()[0]) - lease.Milliseconds() - end
		if after < 0 || after > late.Milliseconds() {
			t.Errorf("entered %d ms after the lease ended, want between 0 and %v", after, late)
		}
		wantLost(t, old, holdfast.LossExpired)
		wantPermits(t, sem, 0, 1)
		release(t, got.lease)
		wantPermits(t, sem, 1, 0)
	})
}

func TestPE08WaiterEntersWhenLeaseEnds(t *testing.T) {
	permitAfterExpiry(t, func(t *testing.T, sem *holdfast.LeasedSemaphore, lease holdfast.Option) outcome {
		return awaitAfter(t, time.Second, background(t.Context(), sem.Locker(1), lease))
	})
}

func TestPE09TimedTryOutlivesLease(t *testing.T) {
	permitAfterExpiry(t, func(t *testing.T, sem *holdfast.LeasedSemaphore, lease holdfast.Option) outcome {
		l, err := sem.TryAcquire(t.Context(), 1, lease, holdfast.Wait(time.Second+late))
		return outcome{l, err}
	})
}

func TestPE10SetOnce(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 10)
	wantPermits(t, sem, 10, 0)
	if set, err := sem.TrySet(t.Context(), 15, 0); set || err != nil {
		t.Errorf("set twice: %v, %v", set, err)
	}
	wantPermits(t, sem, 10, 0)
	l := obtain(t, sem, 10)
	if set, err := sem.TrySet(t.Context(), 15, time.Minute); set || err != nil {
		t.Errorf("set while all are taken: %v, %v", set, err)
	}
	wantPermits(t, sem, 0, 10)
	release(t, l)
}

func TestPE11Set(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	sem := c.LeasedSemaphore(name(t))
	set := func(permits, available, taken int) {
		t.Helper()
		if err := sem.Set(t.Context(), permits); err != nil {
			t.Fatal(err)
		}
		wantPermits(t, sem, available, taken)
	}
	set(3, 3, 0)
	set(0, 0, 0)
	set(2, 2, 0)
	one, two := obtain(t, sem, 1), obtain(t, sem, 1)
	waiter := background(t.Context(), c.LeasedSemaphore(sem.Name()).Locker(2))
	set(3, 1, 2)
	if err := sem.Set(t.Context(), 4); err != nil { // enough for the waiter
		t.Fatal(err)
	}
	three := entered(t, waiter)
	wantPermits(t, sem, 0, 4)
	set(3, -1, 4)
	release(t, one)
	wantPermits(t, sem, 0, 3)
	wantRefused(t, sem.Locker(1))
	release(t, two)
	wantPermits(t, sem, 1, 2)
	release(t, three)
	wantPermits(t, sem, 3, 0)
}

func TestPE12Add(t *testing.T) {
	t.Parallel()
	sem := open(t, redistest.Shared(t).URL()).LeasedSemaphore(name(t))
	add := func(permits, available, taken int) {
		t.Helper()
		if err := sem.Add(t.Context(), permits); err != nil {
			t.Fatal(err)
		}
		wantPermits(t, sem, available, taken)
	}
	add(10, 10, 0)
	add(-5, 5, 0)
	l := obtain(t, sem, 5)
	add(5, 5, 5)
	add(-10, -5, 5)
	wantRefused(t, sem.Locker(1))
	release(t, l)
	wantPermits(t, sem, 0, 0)
	waiter := background(t.Context(), sem.Locker(3))
	add(2, 2, 0)
	if err := sem.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	release(t, entered(t, waiter))
	wantPermits(t, sem, 3, 0)
}

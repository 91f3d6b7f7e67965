package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestPE13ReleasedByAnother(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	holder := open(t, s.URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		sem := permitsOf(t, holder, 1)
		l := obtain(t, sem, 1)
		waiter := background(t.Context(), c.LeasedSemaphore(sem.Name()).Locker(1))
		listened(t, s, "redisson_sc:{"+sem.Name()+"}")
		freed := make(chan error, 1)
		go func() { freed <- c.LeasedSemaphore(sem.Name()).ReleaseIDs(context.Background(), l.Permits()...) }()
		got := entered(t, waiter)
		if err := <-freed; err != nil {
			t.Error(err)
		}
		for _, id := range append(l.Permits(), got.Permits()...) {
			if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
				t.Errorf("id %q", id)
			}
		}
		wantLost(t, l, holdfast.LossNotOwner)
		wantPermits(t, sem, 0, 1)
		release(t, got)
	})
}

func TestPE14ReleaseList(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 10)
	ids := obtain(t, sem, 6).Permits()
	if len(ids) != 6 {
		t.Fatalf("%d ids", len(ids))
	}
	wantPermits(t, sem, 4, 6)
	if err := sem.ReleaseIDs(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	wantPermits(t, sem, 10, 0)
}

func TestPE15TimedTry(t *testing.T) {
	t.Parallel()
	holder := open(t, redistest.Shared(t).URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		l := obtain(t, permitsOf(t, holder, 1), 1)
		sem := c.LeasedSemaphore(l.Name())
		if _, err := sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("immediate try: %v", err)
		}
		const pause = 500 * time.Millisecond
		start := time.Now()
		done := make(chan struct{})
		time.AfterFunc(pause, func() {
			defer close(done)
			release(t, l)
		})
		got, err := sem.TryAcquire(t.Context(), 1, holdfast.Wait(4*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < pause || took > pause+late {
			t.Errorf("entered after %v", took)
		}
		<-done // who has given it back may hear of it last
		release(t, got)
	})
}

func TestPE16Batches(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 10)
	four, five := obtain(t, sem, 4), obtain(t, sem, 5)
	wantPermits(t, sem, 1, 9)
	wantRefused(t, sem.Locker(2))
	release(t, four)
	wantPermits(t, sem, 5, 5)
	release(t, five)
	wantPermits(t, sem, 10, 0)
}

func TestPE17UnknownID(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 2)
	l := obtain(t, sem, 1)
	wantNotHeld(t, "releasing an unknown id", sem.ReleaseIDs(t.Context(), nobodysID))
	for _, bad := range []string{"", "1234", l.Permits()[0] + "00", strings.Repeat("x", 32)} {
		if err := sem.ReleaseIDs(t.Context(), bad); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("releasing %q: %v", bad, err)
		}
	}
	if err := sem.ReleaseIDs(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("releasing nothing: %v", err)
	}
	wantPermits(t, sem, 1, 1)
	release(t, l)
}

func TestPE18ExpiredID(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 1)
	l := obtain(t, sem, 1, holdfast.LeaseTime(100*time.Millisecond))
	time.Sleep(200 * time.Millisecond)
	wantNotHeld(t, "releasing an expired id", sem.ReleaseIDs(t.Context(), l.Permits()...))
	wantPermits(t, sem, 1, 0)
	wantLost(t, l, holdfast.LossExpired)
	wantFree(t, sem.Locker(1))
	wantPermits(t, sem, 1, 0)
}

// contendForOne has a single permit taken that often through every semaphore,
// all at the same time.
func contendForOne(t *testing.T, sems []*holdfast.LeasedSemaphore, rounds int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sec := newSection(sems[0].Name())
	parallel(len(sems), func(i int) {
		for range rounds {
			l, err := sems[i].Acquire(ctx, 1)
			if err != nil {
				t.Error(err)
				return
			}
			sec.visit(l, 0)
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	sec.check(t, len(sems)*rounds)
	wantPermits(t, sems[0], 1, 0)
}

func TestPE19OneClient(t *testing.T) {
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 1)
	sems := make([]*holdfast.LeasedSemaphore, 100)
	for i := range sems {
		sems[i] = sem
	}
	contendForOne(t, sems, 1)
}

func TestPE20SixteenClients(t *testing.T) {
	url := redistest.Shared(t).URL()
	sems := []*holdfast.LeasedSemaphore{permitsOf(t, open(t, url), 1)}
	for range 15 {
		sems = append(sems, open(t, url).LeasedSemaphore(sems[0].Name()))
	}
	contendForOne(t, sems, often(100))
}

// inBackground takes permits, twice as many in all as there are, in the
// background, and gives back by their ids what came first.
func inBackground(t *testing.T, permits int) {
	t.Helper()
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), permits)
	start := time.Now()
	l := entered(t, background(t.Context(), sem.Locker(permits)))
	if took := time.Since(start); took > late {
		t.Errorf("taken after %v although free", took)
	}
	if n := len(l.Permits()); n != permits {
		t.Errorf("%d permits", n)
	}
	waiter := background(t.Context(), sem.Locker(permits))
	select {
	case o := <-waiter:
		t.Fatalf("taken twice: %v", o.err)
	case <-time.After(100 * time.Millisecond):
	}
	wantPermits(t, sem, 0, permits)
	if err := sem.ReleaseIDs(t.Context(), l.Permits()...); err != nil {
		t.Error(err)
	}
	release(t, entered(t, waiter))
	wantPermits(t, sem, permits, 0)
}

func TestPE21Background(t *testing.T)      { inBackground(t, 1) }
func TestPE22BackgroundBatch(t *testing.T) { inBackground(t, 2) }
func TestPE23BackgroundMany(t *testing.T)  { inBackground(t, 20) }

func TestPE24PartialLists(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 10)
	ids := obtain(t, sem, 10).Permits()
	for _, part := range [][]string{ids[:3], ids[3:4], ids[4:8]} {
		if err := sem.ReleaseIDs(t.Context(), part...); err != nil {
			t.Error(err)
		}
	}
	wantPermits(t, sem, 8, 2)
	wantNotHeld(t, "releasing the whole list", sem.ReleaseIDs(t.Context(), ids...))
	wantPermits(t, sem, 8, 2)
	if err := sem.ReleaseIDs(t.Context(), ids[8:]...); err != nil {
		t.Error(err)
	}
	wantNotHeld(t, "releasing the whole list again", sem.ReleaseIDs(t.Context(), ids...))
	wantPermits(t, sem, 10, 0)
}

func TestPE25BatchExpires(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 4)
	const lease = 3 * time.Second
	l := obtain(t, sem, 3, holdfast.LeaseTime(lease))
	wantRefused(t, sem.Locker(2))
	next, err := sem.TryAcquire(t.Context(), 4, holdfast.Wait(lease+late))
	if err != nil {
		t.Fatal(err)
	}
	wantLost(t, l, holdfast.LossExpired)
	wantPermits(t, sem, 0, 4)
	release(t, next)
	wantPermits(t, sem, 4, 0)
}

func TestPE26LateBatchRelease(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 3)
	l := obtain(t, sem, 3, holdfast.LeaseTime(100*time.Millisecond))
	time.Sleep(200 * time.Millisecond)
	wantNotHeld(t, "a late release", sem.ReleaseIDs(t.Context(), l.Permits()...))
	wantPermits(t, sem, 3, 0)
	next := obtain(t, sem, 2)
	wantNotHeld(t, "a later one", sem.ReleaseIDs(t.Context(), l.Permits()...))
	wantPermits(t, sem, 1, 2)
	release(t, next)
}

func TestPE27AllOrNothing(t *testing.T) {
	t.Parallel()
	sem := permitsOf(t, open(t, redistest.Shared(t).URL()), 5)
	ids := obtain(t, sem, 2, holdfast.LeaseTime(time.Minute)).Permits()
	expired := obtain(t, sem, 1, holdfast.LeaseTime(100*time.Millisecond)).Permits()[0]
	back := obtain(t, sem, 1)
	release(t, back)
	time.Sleep(200 * time.Millisecond)
	wantPermits(t, sem, 3, 2)
	for what, bad := range map[string]string{"expired": expired, "released": back.Permits()[0], "unknown": nobodysID} {
		for at := range 3 {
			list := append([]string{}, ids...)
			list = append(list[:at], append([]string{bad}, list[at:]...)...)
			wantNotHeld(t, fmt.Sprintf("a list with an id that is %s at %d", what, at), sem.ReleaseIDs(t.Context(), list...))
			wantPermits(t, sem, 3, 2)
		}
	}
	if err := sem.ReleaseIDs(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	wantPermits(t, sem, 5, 0)
}

func TestPE28Remaining(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	sem := permitsOf(t, open(t, s.URL()), 3)
	if _, err := sem.RemainingID(t.Context(), nobodysID); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("an unknown id: %v", err)
	}
	javaTakes(t, s, sem, strings.Repeat("j", 16), javaForever)
	if left, err := sem.RemainingID(t.Context(), strings.Repeat("6a", 16)); left >= 0 || err != nil {
		t.Errorf("what Java has without an end: %v, %v", left, err)
	}
	l := obtain(t, sem, 1, holdfast.LeaseTime(10*time.Second))
	first, err := sem.RemainingID(t.Context(), l.Permits()[0])
	if first > 10*time.Second || first < 5*time.Second || err != nil {
		t.Errorf("%v, %v", first, err)
	}
	time.Sleep(300 * time.Millisecond)
	if left, err := sem.RemainingID(t.Context(), l.Permits()[0]); first-left < 290*time.Millisecond || err != nil {
		t.Errorf("%v after %v, %v", left, first, err)
	}
	release(t, l)
	if _, err := sem.RemainingID(t.Context(), l.Permits()[0]); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("an id that was given back: %v", err)
	}
}

// oneAfterTheOther has two clients take some of two permits for a while.
func oneAfterTheOther(t *testing.T, wants ...int) {
	t.Helper()
	t.Parallel()
	url := redistest.Shared(t).URL()
	sem := permitsOf(t, open(t, url), 2)
	sec := newSection(sem.Name())
	parallel(2, func(i int) {
		l, err := open(t, url).LeasedSemaphore(sem.Name()).TryAcquire(t.Context(), wants[i], holdfast.Wait(2*late))
		if err != nil {
			t.Error(err)
			return
		}
		sec.visit(l, 300*time.Millisecond)
		release(t, l)
	})
	sec.check(t, 2)
	wantPermits(t, sem, 2, 0)
}

func TestPE29TwoWantAll(t *testing.T)   { oneAfterTheOther(t, 2, 2) }
func TestPE30OneWantsHalf(t *testing.T) { oneAfterTheOther(t, 1, 2) }

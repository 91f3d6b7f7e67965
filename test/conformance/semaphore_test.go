package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// refused checks that TryAcquire does not get that many permits.
func refused(tb testing.TB, sem *holdfast.Semaphore, permits int) {
	tb.Helper()
	start := time.Now()
	if err := sem.TryAcquire(context.Background(), permits); !errors.Is(err, holdfast.ErrNotAcquired) {
		tb.Errorf("TryAcquire of %d: %v", permits, err)
	}
	if took := locktest.Took(start); took > locktest.Late {
		tb.Errorf("the answer took %v", took)
	}
}

func TestSE01AddedBeforeSetUp(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	c := locktest.Open(t, s.URL())
	sem, mine := c.Semaphore(n), locktest.Open(t, s.URL()).Semaphore(n)
	if err := mine.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	locktest.WantFreePermits(t, mine, 1)
	done := locktest.Acquiring(t, s, sem, 2)
	for range 3 {
		if err := mine.TryAcquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		locktest.WantFreePermits(t, mine, 0)
		locktest.ReleasePermits(t, mine, 1)
	}
	locktest.WantWaiting(t, c, done)
	if err := mine.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	locktest.Came(t, done)
	locktest.WantFreePermits(t, mine, 0)
}

func TestSE02None(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL())
	sem := c.Semaphore(locktest.Name(t))
	p.ResetCounts()
	locktest.Acquire(t, sem, 0)
	if err := sem.TryAcquire(t.Context(), 0); err != nil {
		t.Error(err)
	}
	locktest.ReleasePermits(t, sem, 0)
	if n := p.Total() - p.Count("PING"); n > 0 { // which comes whenever a connection is idle
		t.Errorf("%d commands for nothing: %v", n, p.Commands())
	}
	set := locktest.NewSemaphore(t, c, locktest.Name(t), 3)
	locktest.Acquire(t, set, 0)
	locktest.ReleasePermits(t, set, 0)
	locktest.WantFreePermits(t, set, 3)
	if ok, err := sem.ReleaseIfExists(t.Context(), 0); ok || err != nil {
		t.Errorf("no permits released to a missing semaphore: %v, %v", ok, err)
	}
	if ok, err := set.ReleaseIfExists(t.Context(), 0); !ok || err != nil {
		t.Errorf("no permits released: %v, %v", ok, err)
	}
	locktest.WantFreePermits(t, set, 3)
}

func TestSE03ReleaseCreates(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	sem := locktest.NewSemaphore(t, c, locktest.Name(t), -1)
	locktest.WantFreePermits(t, sem, 0)
	refused(t, sem, 1)
	locktest.ReleasePermits(t, sem, 2)
	locktest.WantFreePermits(t, sem, 2)
	locktest.Acquire(t, sem, 2)
	locktest.WantFreePermits(t, sem, 0)
}

func TestSE04ReleaseOfWhatNobodyTook(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	sem := locktest.NewSemaphore(t, c, locktest.Name(t), 2)
	locktest.ReleasePermits(t, sem, 1)
	locktest.WantFreePermits(t, sem, 3)
	locktest.Acquire(t, sem, 3)
}

func TestSE05SetOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	n := locktest.Name(t)
	locktest.NewSemaphore(t, a, n, 10)
	for _, c := range []*holdfast.Client{a, b} {
		if ok, err := c.Semaphore(n).TrySet(t.Context(), 15, time.Minute); ok || err != nil {
			t.Errorf("set again: %v, %v", ok, err)
		}
	}
	locktest.WantFreePermits(t, a.Semaphore(n), 10)
	if ttl := s.Int(t, "PTTL", n); ttl != -1 {
		t.Errorf("TTL %d", ttl)
	}

	brief := a.Semaphore(locktest.Name(t))
	if ok, err := brief.TrySet(t.Context(), 10, 5*time.Second); !ok || err != nil {
		t.Fatal(ok, err)
	}
	locktest.Acquire(t, brief, 4)
	locktest.WantFreePermits(t, brief, 6)
	if ttl := s.Int(t, "PTTL", brief.Name()); ttl <= 0 || ttl > 5000 {
		t.Errorf("TTL %d", ttl)
	}
	locktest.Eventually(t, 10*time.Second, "gone", func() bool { return s.Int(t, "EXISTS", brief.Name()) == 0 })
	locktest.WantFreePermits(t, brief, 0)
	if ok, err := brief.TrySet(t.Context(), 2, 0); !ok || err != nil {
		t.Errorf("set anew: %v, %v", ok, err)
	}
}

func TestSE06AddToNone(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	sem := locktest.NewSemaphore(t, c, locktest.Name(t), 10)
	locktest.Acquire(t, sem, 10)
	locktest.WantFreePermits(t, sem, 0)
	if err := sem.Add(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	locktest.WantFreePermits(t, sem, 4)
	locktest.ReleasePermits(t, sem, 10)
	locktest.WantFreePermits(t, sem, 14)
}

func TestSE07BelowZero(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	sem := locktest.NewSemaphore(t, c, locktest.Name(t), 10)
	locktest.Acquire(t, sem, 8)
	if err := sem.Add(t.Context(), -5); err != nil {
		t.Fatal(err)
	}
	locktest.WantFreePermits(t, sem, -3)
	refused(t, sem, 1)
	if n, err := sem.Drain(t.Context()); n != 0 || err != nil {
		t.Errorf("drained %d, %v", n, err)
	}
	locktest.WantFreePermits(t, sem, -3)
	locktest.ReleasePermits(t, sem, 3)
	locktest.WantFreePermits(t, sem, 0)
	refused(t, sem, 1)
	locktest.ReleasePermits(t, sem, 5)
	locktest.WantFreePermits(t, sem, 5)
	locktest.Acquire(t, sem, 5)
}

func TestSE08WaitForRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	for where, holder := range map[string]*holdfast.Client{"same client": c, "other client": locktest.Open(t, s.URL())} {
		t.Run(where, func(t *testing.T) {
			n := locktest.Name(t)
			sem := locktest.NewSemaphore(t, holder, n, 1)
			locktest.Acquire(t, sem, 1)
			done := locktest.Acquiring(t, s, c.Semaphore(n), 1)
			locktest.WantWaiting(t, c, done)
			locktest.ReleasePermits(t, sem, 1)
			locktest.Came(t, done)
			locktest.WantFreePermits(t, sem, 0)
		})
	}
}

func TestSE09WaitForTwoReleases(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	c := locktest.Open(t, s.URL())
	sem := locktest.NewSemaphore(t, locktest.Open(t, s.URL()), n, 5)
	locktest.Acquire(t, sem, 3)
	done := locktest.Acquiring(t, s, c.Semaphore(n), 4)
	locktest.WantWaiting(t, c, done)
	locktest.ReleasePermits(t, sem, 1)
	for range 20 { // each release wakes the waiter, which must not take what is not enough
		if err := sem.TryAcquire(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		locktest.ReleasePermits(t, sem, 3)
	}
	locktest.WantWaiting(t, c, done)
	locktest.ReleasePermits(t, sem, 1)
	locktest.Came(t, done)
	locktest.WantFreePermits(t, sem, 0)
}

func TestSE10TimedTake(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	c := locktest.Open(t, s.URL())
	sem, other := locktest.NewSemaphore(t, locktest.Open(t, s.URL()), n, 5), c.Semaphore(n)
	locktest.Acquire(t, sem, 3)
	refused(t, other, 4)
	const wait = 2 * time.Second // or a server that stands still may not have said no
	start := time.Now()
	if err := other.TryAcquire(t.Context(), 4, holdfast.Wait(wait)); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("TryAcquire with too little time: %v", err)
	}
	if took := time.Since(start); took < wait || locktest.Took(start) > wait+locktest.Late {
		t.Errorf("gave up after %v", took)
	}
	locktest.WantFreePermits(t, sem, 2)
	done := make(chan error, 1)
	go func() { done <- other.TryAcquire(t.Context(), 4, holdfast.Wait(time.Minute)) }()
	for range 2 {
		locktest.WantWaiting(t, c, done)
		locktest.ReleasePermits(t, sem, 1)
	}
	locktest.Came(t, done)
	locktest.WantFreePermits(t, sem, 0)
}

func TestSE11Drain(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	sem := locktest.NewSemaphore(t, c, locktest.Name(t), -1)
	for _, want := range []int{0, 10, 0} {
		if want > 0 {
			locktest.ReleasePermits(t, sem, want)
		}
		if n, err := sem.Drain(t.Context()); n != want || err != nil {
			t.Errorf("drained %d, want %d; %v", n, want, err)
		}
		locktest.WantFreePermits(t, sem, 0)
	}
	locktest.ReleasePermits(t, sem, 1)
	locktest.WantFreePermits(t, sem, 1)
}

func TestSE12Counts(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	sem := locktest.NewSemaphore(t, c, locktest.Name(t), 20)
	free := 20
	for _, n := range []int{1, 5, -5, -1, 5, 5, 1, -5, -1, -5} {
		if n > 0 {
			locktest.Acquire(t, sem, n)
		} else {
			locktest.ReleasePermits(t, sem, -n)
		}
		free -= n
		locktest.WantFreePermits(t, sem, free)
	}
}

func TestSE13ReleaseIfExists(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	sem := locktest.NewSemaphore(t, c, locktest.Name(t), -1)
	if ok, err := sem.ReleaseIfExists(t.Context(), 1); ok || err != nil {
		t.Errorf("released to a missing semaphore: %v, %v", ok, err)
	}
	if s.Int(t, "EXISTS", sem.Name()) != 0 {
		t.Error("it was created")
	}
	if ok, err := sem.TrySet(t.Context(), 0, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := sem.ReleaseIfExists(t.Context(), 3); !ok || err != nil {
		t.Errorf("released: %v, %v", ok, err)
	}
	locktest.WantFreePermits(t, sem, 3)
}

// guarded lets several clients take one permit that often, and checks that no two have it at
// the same time.
func guarded(t *testing.T, clients, tasks, rounds int) {
	t.Helper()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	locktest.NewSemaphore(t, locktest.Open(t, s.URL()), n, 1)
	var visits bytes.Buffer
	recorder := redistest.NewRecorder(&visits)
	cs := make([]*holdfast.Client, clients)
	for i := range cs {
		cs[i] = locktest.Open(t, s.URL())
	}
	locktest.Parallel(clients*tasks, func(i int) {
		sem := cs[i%clients].Semaphore(n)
		for range rounds {
			if err := sem.Acquire(t.Context(), 1); err != nil {
				t.Error(err)
				return
			}
			leave := recorder.Enter(n, strconv.Itoa(i))
			runtime.Gosched()
			leave()
			locktest.ReleasePermits(t, sem, 1)
		}
	})
	locktest.CheckExclusive(t, &visits, clients*tasks*rounds)
	if free := s.Do(t, "GET", n); free != "1" {
		t.Errorf("%v permits are free", free)
	}
}

func TestSE14OneAtATime(t *testing.T)  { t.Parallel(); guarded(t, 1, 15, 20) }
func TestSE15ManyClients(t *testing.T) { t.Parallel(); guarded(t, 16, 1, locktest.Often(100)) }
func TestSE16MoreClients(t *testing.T) { t.Parallel(); guarded(t, 30, 1, 10) }
func TestSE17NobodyStarves(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	locktest.NewSemaphore(t, locktest.Open(t, s.URL()), n, math.MaxInt32)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cs := []*holdfast.Client{locktest.Open(t, s.URL()), locktest.Open(t, s.URL()), locktest.Open(t, s.URL()), locktest.Open(t, s.URL())}
	var all atomic.Int64
	locktest.Parallel(40, func(i int) {
		sem := cs[i%len(cs)].Semaphore(n)
		for round := range 20 {
			permits := 1
			if (i+round)%10 == 0 {
				permits = math.MaxInt32
				all.Add(1)
			}
			if err := sem.Acquire(ctx, permits); err != nil {
				t.Errorf("%d permits: %v", permits, err)
				return
			}
			locktest.ReleasePermits(t, sem, permits)
		}
	})
	locktest.WantFreePermits(t, cs[0].Semaphore(n), math.MaxInt32)
	if all.Load() == 0 {
		t.Error("no goroutine wanted all permits")
	}
}

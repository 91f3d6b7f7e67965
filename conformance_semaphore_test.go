package holdfast_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestSE01AddedBeforeSetUp(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	sem, mine := open(t, s.URL()).Semaphore(n), open(t, s.URL()).Semaphore(n)
	if err := mine.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	hasFree(t, mine, 1)
	done := taking(t, s, sem, 2)
	for range 3 {
		if err := mine.TryAcquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		hasFree(t, mine, 0)
		giveBack(t, mine, 1)
	}
	waits(t, done)
	if err := mine.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	came(t, done)
	hasFree(t, mine, 0)
}

func TestSE02None(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL())
	sem := c.Semaphore(name(t))
	p.ResetCounts()
	take(t, sem, 0)
	if err := sem.TryAcquire(t.Context(), 0); err != nil {
		t.Error(err)
	}
	giveBack(t, sem, 0)
	if n := p.Total() - p.Count("PING"); n > 0 { // which comes whenever a connection is idle
		t.Errorf("%d commands for nothing: %v", n, p.Commands())
	}
	set := semaphore(t, c, name(t), 3)
	take(t, set, 0)
	giveBack(t, set, 0)
	hasFree(t, set, 3)
	if ok, err := sem.ReleaseIfExists(t.Context(), 0); ok || err != nil {
		t.Errorf("none given back to a semaphore that is not there: %v, %v", ok, err)
	}
	if ok, err := set.ReleaseIfExists(t.Context(), 0); !ok || err != nil {
		t.Errorf("none given back: %v, %v", ok, err)
	}
	hasFree(t, set, 3)
}

func TestSE03ReleaseCreates(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	sem := semaphore(t, c, name(t), -1)
	hasFree(t, sem, 0)
	refused(t, sem, 1)
	giveBack(t, sem, 2)
	hasFree(t, sem, 2)
	take(t, sem, 2)
	hasFree(t, sem, 0)
}

func TestSE04ReleaseOfWhatNobodyTook(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	sem := semaphore(t, c, name(t), 2)
	giveBack(t, sem, 1)
	hasFree(t, sem, 3)
	take(t, sem, 3)
}

func TestSE05SetOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := open(t, s.URL()), open(t, s.URL())
	n := name(t)
	semaphore(t, a, n, 10)
	for _, c := range []*holdfast.Client{a, b} {
		if ok, err := c.Semaphore(n).TrySet(t.Context(), 15, time.Minute); ok || err != nil {
			t.Errorf("set again: %v, %v", ok, err)
		}
	}
	hasFree(t, a.Semaphore(n), 10)
	if ttl := s.Int(t, "PTTL", n); ttl != -1 {
		t.Errorf("TTL %d", ttl)
	}

	brief := a.Semaphore(name(t))
	if ok, err := brief.TrySet(t.Context(), 10, 5*time.Second); !ok || err != nil {
		t.Fatal(ok, err)
	}
	take(t, brief, 4)
	hasFree(t, brief, 6)
	if ttl := s.Int(t, "PTTL", brief.Name()); ttl <= 0 || ttl > 5000 {
		t.Errorf("TTL %d", ttl)
	}
	eventually(t, 10*time.Second, "gone", func() bool { return s.Int(t, "EXISTS", brief.Name()) == 0 })
	hasFree(t, brief, 0)
	if ok, err := brief.TrySet(t.Context(), 2, 0); !ok || err != nil {
		t.Errorf("set anew: %v, %v", ok, err)
	}
}

func TestSE06AddToNone(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	sem := semaphore(t, c, name(t), 10)
	take(t, sem, 10)
	hasFree(t, sem, 0)
	if err := sem.Add(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	hasFree(t, sem, 4)
	giveBack(t, sem, 10)
	hasFree(t, sem, 14)
}

func TestSE07BelowZero(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	sem := semaphore(t, c, name(t), 10)
	take(t, sem, 8)
	if err := sem.Add(t.Context(), -5); err != nil {
		t.Fatal(err)
	}
	hasFree(t, sem, -3)
	refused(t, sem, 1)
	if n, err := sem.Drain(t.Context()); n != 0 || err != nil {
		t.Errorf("drained %d, %v", n, err)
	}
	hasFree(t, sem, -3)
	giveBack(t, sem, 3)
	hasFree(t, sem, 0)
	refused(t, sem, 1)
	giveBack(t, sem, 5)
	hasFree(t, sem, 5)
	take(t, sem, 5)
}

func TestSE08WaitForRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL())
	for where, holder := range map[string]*holdfast.Client{"same client": c, "other client": open(t, s.URL())} {
		t.Run(where, func(t *testing.T) {
			n := name(t)
			sem := semaphore(t, holder, n, 1)
			take(t, sem, 1)
			done := taking(t, s, c.Semaphore(n), 1)
			waits(t, done)
			giveBack(t, sem, 1)
			came(t, done)
			hasFree(t, sem, 0)
		})
	}
}

func TestSE09WaitForTwoReleases(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	sem := semaphore(t, open(t, s.URL()), n, 5)
	take(t, sem, 3)
	done := taking(t, s, open(t, s.URL()).Semaphore(n), 4)
	for range 2 {
		waits(t, done)
		giveBack(t, sem, 1)
	}
	came(t, done)
	hasFree(t, sem, 0)
}

func TestSE10TimedTake(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	sem, other := semaphore(t, open(t, s.URL()), n, 5), open(t, s.URL()).Semaphore(n)
	take(t, sem, 3)
	refused(t, other, 4)
	const wait = 2 * time.Second // or a server that stands still may not have said no
	start := time.Now()
	if err := other.TryAcquire(t.Context(), 4, holdfast.Wait(wait)); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("TryAcquire with too little time: %v", err)
	}
	if took := time.Since(start); took < wait || took > wait+late {
		t.Errorf("gave up after %v", took)
	}
	hasFree(t, sem, 2)
	start = time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 {
			time.Sleep(500 * time.Millisecond)
			giveBack(t, sem, 1)
		}
	}()
	if err := other.TryAcquire(t.Context(), 4, holdfast.Wait(time.Second+late)); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("came in after %v, before the second release", took)
	}
	<-done // who has given it back may hear of it last
	hasFree(t, sem, 0)
}

func TestSE11Drain(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	sem := semaphore(t, c, name(t), -1)
	for _, want := range []int{0, 10, 0} {
		if want > 0 {
			giveBack(t, sem, want)
		}
		if n, err := sem.Drain(t.Context()); n != want || err != nil {
			t.Errorf("drained %d, want %d; %v", n, want, err)
		}
		hasFree(t, sem, 0)
	}
	giveBack(t, sem, 1)
	hasFree(t, sem, 1)
}

func TestSE12Counts(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	sem := semaphore(t, c, name(t), 20)
	free := 20
	for _, n := range []int{1, 5, -5, -1, 5, 5, 1, -5, -1, -5} {
		if n > 0 {
			take(t, sem, n)
		} else {
			giveBack(t, sem, -n)
		}
		free -= n
		hasFree(t, sem, free)
	}
}

func TestSE13ReleaseIfExists(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL())
	sem := semaphore(t, c, name(t), -1)
	if ok, err := sem.ReleaseIfExists(t.Context(), 1); ok || err != nil {
		t.Errorf("given back to nobody: %v, %v", ok, err)
	}
	if s.Int(t, "EXISTS", sem.Name()) != 0 {
		t.Error("it was created")
	}
	if ok, err := sem.TrySet(t.Context(), 0, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := sem.ReleaseIfExists(t.Context(), 3); !ok || err != nil {
		t.Errorf("given back: %v, %v", ok, err)
	}
	hasFree(t, sem, 3)
}

// guarded counts up that often in each of several clients, under one permit,
// in a way that loses counts if two are at it.
func guarded(t *testing.T, clients, tasks, rounds int) {
	t.Helper()
	s := redistest.Shared(t)
	n := name(t)
	semaphore(t, open(t, s.URL()), n, 1)
	var total, inside atomic.Int64
	cs := make([]*holdfast.Client, clients)
	for i := range cs {
		cs[i] = open(t, s.URL())
	}
	parallel(clients*tasks, func(i int) {
		sem := cs[i%clients].Semaphore(n)
		for range rounds {
			if err := sem.Acquire(t.Context(), 1); err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two are inside")
			}
			before := total.Load()
			runtime.Gosched()
			total.Store(before + 1)
			inside.Add(-1)
			giveBack(t, sem, 1)
		}
	})
	if want := int64(clients * tasks * rounds); total.Load() != want {
		t.Errorf("counted %d, want %d", total.Load(), want)
	}
	if free := s.Do(t, "GET", n); free != "1" {
		t.Errorf("%v permits are free", free)
	}
}

func TestSE14OneAtATime(t *testing.T)  { t.Parallel(); guarded(t, 1, 15, 20) }
func TestSE15ManyClients(t *testing.T) { t.Parallel(); guarded(t, 16, 1, often(100)) }
func TestSE16MoreClients(t *testing.T) { t.Parallel(); guarded(t, 30, 1, 10) }
func TestSE17NobodyStarves(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	semaphore(t, open(t, s.URL()), n, math.MaxInt32)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cs := []*holdfast.Client{open(t, s.URL()), open(t, s.URL()), open(t, s.URL()), open(t, s.URL())}
	var all atomic.Int64
	parallel(40, func(i int) {
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
			giveBack(t, sem, permits)
		}
	})
	hasFree(t, cs[0].Semaphore(n), math.MaxInt32)
	if all.Load() == 0 {
		t.Error("nobody wanted all")
	}
}

package interop_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// TestExclusion checks that threads and goroutines hold a lock one at a time. Both
// sides use the same clock.
func TestExclusion(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		exclusive(t, release, func(t *testing.T, k kind) {
			r, n := newFixture(t, release), name(t)
			compete(t, 100, func() object { return k.java(t, r.java, n) }, func() holdfast.Locker { return k.golang(r.golang, n) })
		})
	})
}

// compete runs four threads and four goroutines that acquire and release a lock.
// Threads do this the given number of times, goroutines at least as often and until
// the threads are done. It checks that they held the lock one at a time.
func compete(t *testing.T, rounds int, java func() object, golang func() holdfast.Locker) {
	t.Helper()
	const each = 4
	n := name(t)
	var mu sync.Mutex
	var all []redistest.Interval
	record := func(owner string, entered, left int64) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, redistest.Interval{Name: n, Owner: owner, Enter: entered, Leave: left})
	}
	var wg sync.WaitGroup
	var threads atomic.Int64 // number of threads that are not done
	threads.Store(each)
	for i := range each {
		wg.Go(func() {
			defer threads.Add(-1)
			owner := fmt.Sprint("Java ", i)
			lock := java()
			a := lock.Repeat(n+owner, rounds, lock.Call("", "lock"), lock.Call("", "unlock"))
			if a.Err() != nil {
				t.Error(a.Err())
			}
			for i := 0; i+1 < len(a.Spans); i += 2 {
				record(owner, a.Spans[i][1], a.Spans[i+1][0])
			}
		})
		wg.Go(func() {
			owner := fmt.Sprint("Go ", i)
			lock := golang()
			for i := 0; i < rounds || threads.Load() > 0; i++ {
				l, err := lock.Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				entered := redistest.Now()
				left := redistest.Now()
				record(owner, entered, left)
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := redistest.CheckExclusive(all); err != nil {
		t.Error(err)
	}
	if least := 2 * each * rounds; len(all) < least && !t.Failed() {
		t.Errorf("%d visits, want %d", len(all), least)
	}
	t.Logf("%d visits", len(all))
}

// TestWakeUp checks that the release by the other side wakes a waiter, long before the
// waiter would poll.
func TestWakeUp(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		exclusive(t, release, func(t *testing.T, k kind) {
			if k.name == "spin" {
				t.Skip("a spin lock polls")
			}
			r := newFixture(t, release)
			r.bothWays(t, k, func(t *testing.T, name string, first, second party) {
				const rounds = 5
				var slowest time.Duration
				for range rounds {
					first.Lock(t, 0)
					entered := make(chan int64, 1)
					waits := partyWaits(t, second)
					go func() { entered <- second.Lock(t, 0) }()
					awaitWaiting(t, waits, entered)
					left := first.Unlock(t)
					select {
					case e := <-entered:
						slowest = max(slowest, time.Duration(e-left))
						second.Unlock(t)
					case <-time.After(15 * time.Second):
						t.Fatal("the waiter was not woken")
					}
				}
				t.Logf("slowest of %d: %v", rounds, slowest)
				if slowest > slack { // without a message the waiter would poll after 10 s or more
					t.Errorf("a waiter slept for %v after the release", slowest)
				}
			})
		})
	})
}

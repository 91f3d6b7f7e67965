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

// Threads and goroutines take a lock in turn, and no two of them are inside at
// any time, by one clock.
func TestExclusion(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		exclusive(t, release, func(t *testing.T, k kind) {
			r, n := newRoom(t, release), name(t)
			compete(t, 100, func() object { return k.java(t, r.java, n) }, func() holdfast.Locker { return k.golang(r.golang, n) })
		})
	})
}

// compete has four threads take a lock so many times each, and four goroutines
// as often and until the threads are through. It checks that they were inside
// one at a time.
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
	var threads atomic.Int64 // that are not through
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

// Whoever waits is told by the other side's release, long before it would ask
// by itself.
func TestWakeUp(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		exclusive(t, release, func(t *testing.T, k kind) {
			if k.name == "spin" {
				t.Skip("it asks by itself")
			}
			r := newRoom(t, release)
			r.bothWays(t, k, func(t *testing.T, name string, first, second party) {
				const rounds = 5
				var slowest time.Duration
				for range rounds {
					first.Lock(t, 0)
					entered := make(chan int64, 1)
					go func() { entered <- second.Lock(t, 0) }()
					time.Sleep(200 * time.Millisecond) // it waits by now
					left := first.Unlock(t)
					select {
					case e := <-entered:
						slowest = max(slowest, time.Duration(e-left))
						second.Unlock(t)
					case <-time.After(15 * time.Second):
						t.Fatal("it was never told")
					}
				}
				t.Logf("slowest of %d: %v", rounds, slowest)
				if slowest > slack { // a renewed lease has 30 s, and would be asked after in 10
					t.Errorf("a waiter slept for %v after the release", slowest)
				}
			})
		})
	})
}

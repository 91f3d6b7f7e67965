package interop_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
	goobject "github.com/holdfast-go/holdfast/object"
)

// Both sides count the same permits.
func TestSemaphoreCounts(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r, n := t.Context(), newFixture(t, release), name(t)
		java, golang := r.java.get(t, "getSemaphore", n), r.golang.Semaphore(n)

		java.says(t, 0, "availablePermits")
		java.says(t, true, "trySetPermits", 5)
		gives(t, false)(golang.TrySet(ctx, 9, 0))
		gives(t, 5)(golang.Available(ctx))
		java.says(t, true, "tryAcquire", 2)
		fails(t, golang.TryAcquire(ctx, 4), holdfast.ErrNotAcquired)
		fails(t, golang.TryAcquire(ctx, 3), nil)
		java.says(t, false, "tryAcquire")
		fails(t, golang.Release(ctx, 2), nil)
		java.says(t, nil, "release", 2)
		gives(t, 4)(golang.Available(ctx))
		java.says(t, nil, "acquire", 1)
		java.says(t, 3, "drainPermits")
		gives(t, 0)(golang.Drain(ctx))
		java.says(t, nil, "addPermits", 3)
		gives(t, 3)(golang.Drain(ctx))
		java.says(t, 0, "availablePermits")

		// The number of permits can be reduced below the number of acquired ones.
		fails(t, golang.Add(ctx, -2), nil)
		java.says(t, -2, "availablePermits")
		java.says(t, nil, "addPermits", -1)
		gives(t, -3)(golang.Available(ctx))
		java.says(t, false, "tryAcquire")
		fails(t, golang.Add(ctx, 4), nil)
		java.says(t, true, "tryAcquire")
		java.says(t, true, "delete")

		gives(t, true)(golang.TrySet(ctx, 2, 0))
		java.says(t, false, "trySetPermits", 5)
		java.says(t, 2, "drainPermits")
		gives(t, true)(goobject.Of(golang).Delete(ctx))
		gives(t, false)(golang.ReleaseIfExists(ctx, 1))
		java.says(t, false, "tryAcquire")
		fails(t, golang.TryAcquire(ctx, 1), holdfast.ErrNotAcquired)
		java.says(t, nil, "release")
		gives(t, true)(golang.ReleaseIfExists(ctx, 1))
		java.says(t, 2, "availablePermits")
	})
}

// Redisson drains a negative number of permits to zero and so creates permits.
func TestSemaphoreDrainNegative(t *testing.T) {
	t.Parallel()
	ctx, r, n := t.Context(), newFixture(t, interop.Current), name(t)
	java, golang := r.java.get(t, "getSemaphore", n), r.golang.Semaphore(n)
	fails(t, golang.Add(ctx, -2), nil)
	gives(t, 0)(golang.Drain(ctx))
	java.says(t, -2, "availablePermits")
	java.says(t, -2, "drainPermits")
	gives(t, 0)(golang.Available(ctx))
}

// A semaphore expires as set by any side, unless Redisson adds or drains permits.
func TestSemaphoreTTL(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	for _, setter := range []string{"Java", "Go"} {
		t.Run(setter, func(t *testing.T) {
			n := name(t)
			java, golang := r.java.get(t, "getSemaphore", n), r.golang.Semaphore(n)
			if setter == "Java" {
				java.says(t, true, "trySetPermits", 4, "PT1M")
			} else {
				gives(t, true)(golang.TrySet(ctx, 4, time.Minute))
			}
			lasts := func() {
				t.Helper()
				ttl, err := goobject.Of(golang).TTL(ctx)
				if left := java.do(t, n, "remainTimeToLive").Int(); err != nil || left < 1 || left > 60000 || ttl < 1 || ttl > time.Minute {
					t.Errorf("%d ms to Java, %v and %v to Go", left, ttl, err)
				}
			}
			lasts()
			fails(t, golang.Acquire(ctx, 1), nil)
			fails(t, golang.Release(ctx, 1), nil)
			fails(t, golang.Add(ctx, 1), nil)
			gives(t, 5)(golang.Drain(ctx))
			java.says(t, nil, "release", 2)
			java.says(t, nil, "acquire")
			java.says(t, true, "releaseIfExists", 1)
			lasts()
			java.says(t, nil, "addPermits", 1)
			java.says(t, -1, "remainTimeToLive")
		})
	}
}

// A waiter is woken when the other side releases or adds permits.
func TestSemaphoreWakes(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		r := newFixture(t, release)
		for _, test := range []struct {
			call string
			args []any
			gol  func(s *holdfast.Semaphore) error
		}{
			{"release", []any{2}, func(s *holdfast.Semaphore) error { return s.Release(context.Background(), 2) }},
			{"addPermits", []any{2}, func(s *holdfast.Semaphore) error { return s.Add(context.Background(), 2) }},
			{"trySetPermits", []any{2}, func(s *holdfast.Semaphore) error {
				_, err := s.TrySet(context.Background(), 2, 0)
				return err
			}},
		} {
			t.Run(test.call, func(t *testing.T) {
				t.Run("Java waits", func(t *testing.T) {
					t.Parallel()
					n := name(t)
					java, golang := r.java.get(t, "getSemaphore", n), r.golang.Semaphore(n)
					wakes(t, threadWaits(t, peer(t, release), n, inQueue), func() error { return java.Do(n, "acquire", 2).Err() }, func() { fails(t, test.gol(golang), nil) })
					java.says(t, 0, "availablePermits")
				})
				t.Run("Go waits", func(t *testing.T) {
					t.Parallel()
					o := unpolled
					if release == interop.Era && test.call == "addPermits" {
						o.PollInterval = 500 * time.Millisecond // no message is published
					}
					n, client := name(t), open(t, r.server.URL(), o)
					java, golang := r.java.get(t, "getSemaphore", n), client.Semaphore(n)
					wakes(t, goroutineWaits(client), func() error { return golang.Acquire(context.Background(), 2) }, func() { java.do(t, n, test.call, test.args...) })
					gives(t, 0)(golang.Available(t.Context()))
				})
			})
		}
	})
}

// A message of Holdfast with a negative number of permits makes Redisson's listener fail. The
// Java waiter still receives the next message.
func TestSemaphoreDebt(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r, n := context.Background(), newFixture(t, release), name(t)
		java, golang := r.java.get(t, "getSemaphore", n), r.golang.Semaphore(n)
		wakes(t, threadWaits(t, peer(t, release), n, inQueue), func() error { return java.Do(n, "acquire").Err() }, func() {
			fails(t, golang.Add(ctx, -3), nil)
			fails(t, golang.Release(ctx, 3), nil)
			fails(t, golang.Release(ctx, 1), nil)
		})
		java.says(t, 0, "availablePermits")
	})
}

// A wait times out on both sides and acquires nothing.
func TestSemaphoreWaitEnds(t *testing.T) {
	t.Parallel()
	ctx, r, n := t.Context(), newFixture(t, interop.Current), name(t)
	java, golang := r.java.get(t, "getSemaphore", n), r.golang.Semaphore(n)
	gives(t, true)(golang.TrySet(ctx, 1, 0))
	java.says(t, false, "tryAcquire", 2, 300, "MILLISECONDS")
	fails(t, golang.TryAcquire(ctx, 2, holdfast.Wait(time.Second)), holdfast.ErrNotAcquired)
	java.says(t, 1, "availablePermits")
}

// crowd returns the largest number of visits at the same time.
func crowd(visits []redistest.Interval) (most int) {
	type event struct {
		at    int64
		delta int
	}
	var events []event
	for _, v := range visits {
		events = append(events, event{v.Enter, 1}, event{v.Leave, -1})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), a.delta-b.delta) })
	inside := 0
	for _, e := range events {
		inside += e.delta
		most = max(most, inside)
	}
	return most
}

// Threads and goroutines share permits. The number of holders never exceeds the number of
// permits, and no permit is lost or created.
func TestPermitsExclude(t *testing.T) {
	const permits, rounds = 3, 60
	releases(t, func(t *testing.T, release interop.Release) {
		t.Run("semaphore", func(t *testing.T) {
			t.Parallel()
			r, n := newFixture(t, release), name(t)
			java, golang := r.java.get(t, "getSemaphore", n), r.golang.Semaphore(n)
			java.says(t, true, "trySetPermits", permits)
			var f fleet
			f.run(t, peer(t, release), rounds, func(int) []interop.Call {
				return []interop.Call{java.Call("", "acquire"), pause, java.Call("", "release")}
			}, func() (entered, left int64, err error) {
				if err := golang.Acquire(context.Background(), 1); err != nil {
					return 0, 0, err
				}
				entered = redistest.Now()
				locktest.Work(time.Millisecond)
				return entered, redistest.Now(), golang.Release(context.Background(), 1)
			})
			if most := crowd(f.visits); most != permits {
				t.Errorf("%d were inside at once, with %d permits", most, permits)
			}
			java.says(t, permits, "availablePermits")
			gives(t, permits)(golang.Available(t.Context()))
		})
		t.Run("leased", func(t *testing.T) {
			t.Parallel()
			r, n := newFixture(t, release), name(t)
			java, golang := r.java.get(t, "getPermitExpirableSemaphore", n), r.golang.LeasedSemaphore(n)
			gives(t, true)(golang.TrySet(t.Context(), permits, 0))
			var f fleet
			f.run(t, peer(t, release), rounds, func(i int) []interop.Call {
				take := java.Call("", "acquire", 1, "MINUTES")
				take.As = fmt.Sprint(n, i)
				return []interop.Call{take, pause, java.Call("", "release", map[string]string{"ref": take.As})}
			}, func() (entered, left int64, err error) {
				l, err := golang.Acquire(context.Background(), 1)
				if err != nil {
					return 0, 0, err
				}
				entered = redistest.Now()
				locktest.Work(time.Millisecond)
				return entered, redistest.Now(), l.Release(context.Background())
			})
			if most := crowd(f.visits); most != permits {
				t.Errorf("%d were inside at once, with %d permits", most, permits)
			}
			java.says(t, permits, "availablePermits")
			gives(t, holdfast.PermitState{Available: permits})(golang.State(t.Context()))
		})
	})
}

// pause makes a thread sleep for a millisecond.
var pause = interop.Call{On: "java.lang.Thread", Method: "sleep", Args: []any{1}}

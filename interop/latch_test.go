package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/interop"
)

// Both sides count the same latch down.
func TestLatchCounts(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r, n := t.Context(), newRoom(t, release), name(t)
		java, golang := r.java.get(t, "getCountDownLatch", n), r.golang.Latch(n)

		java.says(t, 0, "getCount")
		java.says(t, nil, "await")
		fails(t, golang.Wait(ctx), nil)

		java.says(t, true, "trySetCount", 3)
		gives(t, false)(golang.TrySet(ctx, 9))
		gives(t, 3)(golang.Count(ctx))
		java.says(t, nil, "countDown")
		gives(t, 1)(golang.CountDown(ctx))
		java.says(t, 1, "getCount")
		java.says(t, false, "await", 200, "MILLISECONDS")
		fails(t, golang.Wait(ctx, holdfast.Wait(time.Second)), holdfast.ErrNotAcquired)
		gives(t, 0)(golang.CountDown(ctx))
		java.says(t, 0, "getCount")
		java.says(t, true, "await", 20, "SECONDS")

		gives(t, true)(golang.TrySet(ctx, 2))
		java.says(t, false, "trySetCount", 9)
		java.says(t, nil, "countDown")
		java.says(t, nil, "countDown")
		java.says(t, nil, "countDown") // which an open latch bears
		gives(t, 0)(golang.Count(ctx))
		gives(t, 0)(golang.CountDown(ctx))
		java.says(t, 0, "getCount")
		gives(t, false)(golang.Object().Exists(ctx))
	})
}

// Whoever waits is told when the other side opens the latch, also one with
// braces in its name.
func TestLatchWakes(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r := context.Background(), newRoom(t, release)
		r.golang = open(t, r.server.URL(), unpolled)
		for _, braces := range []string{"", ":{tag}"} {
			t.Run("Java waits"+braces, func(t *testing.T) {
				t.Parallel()
				n := name(t)
				java, golang := r.java.get(t, "getCountDownLatch", n), r.golang.Latch(n)
				gives(t, true)(golang.TrySet(ctx, 2))
				wakes(t, func() error { return java.Do("", "await").Err() }, func() {
					gives(t, 1)(golang.CountDown(ctx))
					gives(t, 0)(golang.CountDown(ctx))
				})
			})
			t.Run("Go waits"+braces, func(t *testing.T) {
				t.Parallel()
				n := name(t)
				java, golang := r.java.get(t, "getCountDownLatch", n), r.golang.Latch(n)
				java.says(t, true, "trySetCount", 2)
				wakes(t, func() error { return golang.Wait(ctx) }, func() {
					java.says(t, nil, "countDown")
					java.says(t, nil, "countDown")
				})
			})
		}
	})
}

// awaits has a thread wait for a latch, and returns once it sleeps. Until then
// it would find a latch that is deleted open.
func awaits(t *testing.T, p *interop.Peer, latch object, thread string) <-chan interop.Answer {
	t.Helper()
	good(t, p.Do(interop.Call{Thread: thread, On: "java.lang.Thread", Method: "currentThread", As: thread}))
	ch := latch.Go(thread, "await")
	eventually(t, 30*time.Second, "a thread sleeps for the latch", func() bool { return blocked(t, p, thread, "ReclosableLatch") })
	return ch
}

// A latch that either side deletes lets go those who wait in Go, at once. Java
// stays, since Redisson's message of it is that of a latch that was set, until
// the latch is opened by a count.
func TestLatchDeleted(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r := context.Background(), newRoom(t, release)
		r.golang = open(t, r.server.URL(), unpolled)
		for _, who := range []string{"Java", "Go"} {
			t.Run("by "+who, func(t *testing.T) {
				t.Parallel()
				n := name(t)
				java, golang := r.java.get(t, "getCountDownLatch", n), r.golang.Latch(n)
				gives(t, true)(golang.TrySet(ctx, 1))
				stuck := awaits(t, peer(t, release), java, n)
				wakes(t, func() error { return golang.Wait(ctx) }, func() {
					if who == "Java" {
						java.says(t, true, "delete")
					} else {
						gives(t, true)(golang.Object().Delete(ctx))
					}
				})
				select {
				case a := <-stuck:
					t.Errorf("Java goes on: %v %v", a, a.Err())
				case <-time.After(500 * time.Millisecond):
				}
				gives(t, true)(golang.TrySet(ctx, 1))
				gives(t, 0)(golang.CountDown(ctx))
				within(t, 2*slack, stuck)
			})
		}
	})
}

// A latch is open when as many have counted down as it says, of either side.
func TestLatchFleet(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		const rounds = 50
		ctx, r, n := context.Background(), newRoom(t, release), name(t)
		java, golang := r.java.get(t, "getCountDownLatch", n), r.golang.Latch(n)
		gives(t, true)(golang.TrySet(ctx, 2*fleetSize*rounds+1))
		waits := java.Go(n, "await")
		var f fleet
		f.run(t, peer(t, release), rounds, func(int) []interop.Call {
			return []interop.Call{java.Call("", "countDown")}
		}, func() (int64, int64, error) {
			_, err := golang.CountDown(ctx)
			return 0, 0, err
		})
		java.says(t, 1, "getCount")
		gives(t, 0)(golang.CountDown(ctx))
		within(t, 2*slack, waits)
		fails(t, golang.Wait(ctx), nil)
	})
}

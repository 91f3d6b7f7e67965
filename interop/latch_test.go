package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/interop"
	goobject "github.com/holdfast-go/holdfast/object"
)

// Both sides count down the same latch.
func TestLatchCounts(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r, n := t.Context(), newFixture(t, release), name(t)
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
		java.says(t, nil, "countDown") // no effect on an open latch
		gives(t, 0)(golang.Count(ctx))
		gives(t, 0)(golang.CountDown(ctx))
		java.says(t, 0, "getCount")
		gives(t, false)(goobject.Of(golang).Exists(ctx))
	})
}

// A waiter is woken when the other side opens the latch, also if its name has braces.
func TestLatchWakes(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r := context.Background(), newFixture(t, release)
		for _, braces := range []string{"", ":{tag}"} {
			t.Run("Java waits"+braces, func(t *testing.T) {
				t.Parallel()
				n := name(t)
				java, golang := r.java.get(t, "getCountDownLatch", n), r.golang.Latch(n)
				gives(t, true)(golang.TrySet(ctx, 2))
				wakes(t, threadWaits(t, peer(t, release), n, atLatch), func() error { return java.Do(n, "await").Err() }, func() {
					gives(t, 1)(golang.CountDown(ctx))
					gives(t, 0)(golang.CountDown(ctx))
				})
			})
			t.Run("Go waits"+braces, func(t *testing.T) {
				t.Parallel()
				n, client := name(t), open(t, r.server.URL(), unpolled)
				java, golang := r.java.get(t, "getCountDownLatch", n), client.Latch(n)
				java.says(t, true, "trySetCount", 2)
				wakes(t, goroutineWaits(client), func() error { return golang.Wait(ctx) }, func() {
					java.says(t, nil, "countDown")
					java.says(t, nil, "countDown")
				})
			})
		}
	})
}

// awaits makes a thread wait for a latch and returns when it sleeps. Before that, the thread
// would see a deleted latch as open.
func awaits(t *testing.T, latch object, thread string) <-chan interop.Answer {
	t.Helper()
	waits := threadWaits(t, latch.Peer(), thread, atLatch)
	ch := latch.Go(thread, "await")
	awaitWaiting(t, waits, ch)
	return ch
}

// staysAsleep makes a change, and checks that a thread still waits for a latch when its client
// has handled the messages of the change: a later message has woken another thread.
func (r *redisson) staysAsleep(t *testing.T, thread string, stuck <-chan interop.Answer, change func()) {
	t.Helper()
	n := name(t)
	later := r.get(t, "getCountDownLatch", n)
	later.do(t, "", "trySetCount", 1)
	woken := awaits(t, later, n)
	change()
	later.do(t, "", "countDown")
	within(t, 2*slack, woken)
	if len(stuck) > 0 || !blocked(t, later.Peer(), thread, atLatch) {
		t.Error("the Java waiter was woken")
	}
}

// When a side deletes a latch, Go waiters return at once. Java waiters stay until a count
// opens the latch, because Redisson sends the message of a new latch.
func TestLatchDeleted(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		for _, who := range []string{"Java", "Go"} {
			t.Run("by "+who, func(t *testing.T) {
				t.Parallel()
				ctx, r, n := context.Background(), newFixture(t, release), name(t)
				r.golang = open(t, r.server.URL(), unpolled)
				java, golang := r.java.get(t, "getCountDownLatch", n), r.golang.Latch(n)
				gives(t, true)(golang.TrySet(ctx, 1))
				stuck := awaits(t, java, n)
				r.java.staysAsleep(t, n, stuck, func() {
					wakes(t, goroutineWaits(r.golang), func() error { return golang.Wait(ctx) }, func() {
						if who == "Java" {
							java.says(t, true, "delete")
						} else {
							gives(t, true)(goobject.Of(golang).Delete(ctx))
						}
					})
				})
				gives(t, true)(golang.TrySet(ctx, 1))
				gives(t, 0)(golang.CountDown(ctx))
				within(t, 2*slack, stuck)
			})
		}
	})
}

// A latch opens when its count is reached by both sides together.
func TestLatchFleet(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		const rounds = 50
		ctx, r, n := context.Background(), newFixture(t, release), name(t)
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

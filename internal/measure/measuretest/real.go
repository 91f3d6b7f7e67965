package measuretest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

// Kinds runs calls of every kind on a real server, and checks what is reported.
func Kinds(t *testing.T, s Subject) {
	server := redistest.Shared(t)
	c := locktest.Open(t, server.URL(), holdfast.Options{Observers: []observe.Observer{s}})
	ctx, name := t.Context(), "{"+locktest.Name(t)+"}"
	for _, m := range []holdfast.Locker{
		c.Mutex(name + "mutex"), c.FairMutex(name + "fair"), c.FencedMutex(name + "fenced"),
		c.RWMutex(name + "rw"), c.RWMutex(name + "rw").RLocker(),
		holdfast.MultiLocker(c.Mutex(name+"1"), c.FencedMutex(name+"2")),
	} {
		l := locktest.Lock(t, ctx, m)
		locktest.Release(t, locktest.Lock(t, l.Context(), m))
		locktest.Release(t, l)
	}
	locktest.Release(t, locktest.Campaign(t, ctx, c.Election(name+"election"), "a"))

	forced := locktest.Lock(t, ctx, holdfast.MultiLocker(c.Mutex(name+"1"), c.Mutex(name+"2")))
	_, _ = c.Mutex(name + "1").ForceUnlock(ctx)
	_ = forced.Release(ctx)

	leased := c.LeasedSemaphore(name + "leased")
	_, _ = leased.TrySet(ctx, 3, 0)
	permits := locktest.Obtain(t, leased, 2)
	_, _ = leased.TryAcquire(ctx, 2)
	Want(t, s.Lines(t), []string{"holdfast_lock_held"}, `holdfast_lock_held{kind="leased semaphore"} 1`)
	locktest.Release(t, permits)

	semaphore := c.Semaphore(name + "semaphore")
	_, _ = semaphore.TrySet(ctx, 4, 0)
	_ = semaphore.Acquire(ctx, 3)
	_ = semaphore.TryAcquire(ctx, 2)
	_ = semaphore.Release(ctx, 3)

	limiter := c.RateLimiter(name + "limiter")
	locktest.SetRate(t, limiter, holdfast.Rate{Permits: 5, Per: time.Hour})
	_, _ = limiter.AllowN(ctx, 5)
	_, _ = limiter.AllowN(ctx, 4)
	_ = limiter.Release(ctx, 5)

	latch := locktest.NewLatch(t, c, name+"latch", 1)
	_ = latch.Wait(ctx, holdfast.Wait(time.Millisecond))
	_ = c.Close() // waits for the observer

	var want []string
	locker := func(kind string, entered bool) {
		want = append(want, Line("holdfast_lock_acquisitions_total", 1, "kind", kind, "outcome", "acquired", "via", "server"))
		if entered {
			want = append(want, Line("holdfast_lock_acquisitions_total", 1, "kind", kind, "outcome", "acquired", "via", "reentry"))
		}
	}
	for _, kind := range []string{"mutex", "fair mutex", "fenced mutex", "write lock", "read lock"} {
		locker(kind, true)
	}
	for _, kind := range []string{"election", "leased semaphore", "semaphore", "rate limiter"} {
		locker(kind, false)
	}
	for _, kind := range []string{"leased semaphore", "semaphore", "rate limiter", "latch"} {
		want = append(want, Line("holdfast_lock_acquisitions_total", 1, "kind", kind, "outcome", "busy"))
	}
	want = append(want,
		`holdfast_lock_acquisitions_total{kind="multi",outcome="acquired",via="server"} 2`,
		`holdfast_lock_acquisitions_total{kind="multi",outcome="acquired",via="reentry"} 1`,
		`holdfast_lock_losses_total{kind="multi",reason="forced"} 1`,
		`holdfast_semaphore_permits_total{kind="leased semaphore",outcome="acquired"} 2`,
		`holdfast_semaphore_permits_total{kind="leased semaphore",outcome="busy"} 2`,
		`holdfast_semaphore_permits_total{kind="semaphore",outcome="acquired"} 3`,
		`holdfast_semaphore_permits_total{kind="semaphore",outcome="busy"} 2`,
		`holdfast_semaphore_released_total{kind="leased semaphore"} 2`,
		`holdfast_semaphore_released_total{kind="semaphore"} 3`,
		`holdfast_limiter_permits_total{outcome="acquired"} 5`,
		`holdfast_limiter_permits_total{outcome="busy"} 4`,
		`holdfast_limiter_returned_total 5`)
	Want(t, s.Lines(t), []string{"holdfast_lock_acq", "holdfast_lock_losses", "holdfast_semaphore", "holdfast_limiter"}, want...)
}

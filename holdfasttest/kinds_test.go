package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/object"
)

// inBubble runs a test in faked time, with two clients of a server.
func inBubble(t *testing.T, f func(t *testing.T, s *holdfasttest.Server, a, b *holdfast.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.NewServer(t)
		f(t, s, s.NewClient(nil), s.NewClient(nil))
	})
}

// Locks of all kinds exclude each other, are handed over, and expire.
func TestLocks(t *testing.T) {
	for name, lock := range map[string]func(c *holdfast.Client) holdfast.Locker{
		"mutex":      func(c *holdfast.Client) holdfast.Locker { return c.Mutex("x") },
		"fair mutex": func(c *holdfast.Client) holdfast.Locker { return c.FairMutex("x") },
		"fenced":     func(c *holdfast.Client) holdfast.Locker { return c.FencedMutex("x") },
		"write lock": func(c *holdfast.Client) holdfast.Locker { return c.RWMutex("x") },
		"multi":      func(c *holdfast.Client) holdfast.Locker { return holdfast.MultiLocker(c.Mutex("x"), c.FairMutex("y")) },
		"semaphore":  func(c *holdfast.Client) holdfast.Locker { return c.LeasedSemaphore("x").Locker(2) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *holdfasttest.Server, a, b *holdfast.Client) {
				ctx := t.Context()
				if name == "semaphore" {
					if err := a.LeasedSemaphore("x").Set(ctx, 3); err != nil {
						t.Fatal(err)
					}
				}
				held, err := lock(a).Lock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := lock(b).TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
					t.Errorf("two have it: %v", err)
				}
				time.AfterFunc(10*time.Minute, func() { _ = held.Release(ctx) })
				start := time.Now()
				next, err := lock(b).Lock(ctx, holdfast.LeaseTime(20*time.Second))
				if err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(start); waited < 10*time.Minute || waited > 10*time.Minute+2*time.Second {
					t.Errorf("handed over after %v", waited)
				}
				_ = b.Close() // with the lease: it is freed
				again, err := lock(a).TryLock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = next.Release(ctx), again.Release(ctx)
			})
		})
	}
}

// The synchronizers work, and their waiting calls are woken.
func TestSynchronizers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server, a, b *holdfast.Client) {
		ctx := t.Context()
		check := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		later := func(f func() error) { time.AfterFunc(time.Minute, func() { check("later", f()) }) }

		_, err := a.Latch("latch").TrySet(ctx, 1)
		check("latch", err)
		later(func() error { _, err := a.Latch("latch").CountDown(ctx); return err })
		check("latch", b.Latch("latch").Wait(ctx))

		_, err = a.Semaphore("sem").TrySet(ctx, 1, 0)
		check("semaphore", err)
		check("semaphore", a.Semaphore("sem").Acquire(ctx, 1))
		later(func() error { return a.Semaphore("sem").Release(ctx, 1) })
		check("semaphore", b.Semaphore("sem").Acquire(ctx, 1))

		limiter := a.RateLimiter("rate")
		check("rate limiter", limiter.SetRate(ctx, holdfast.Rate{Permits: 2, Per: time.Hour}))
		start := time.Now()
		for range 5 {
			check("rate limiter", b.RateLimiter("rate").Wait(ctx))
		}
		if took := time.Since(start); took < 2*time.Hour || took > 2*time.Hour+time.Minute {
			t.Errorf("five permits at two per hour took %v", took)
		}

		leader, err := a.Election("chief").Campaign(ctx, "a")
		check("election", err)
		later(func() error { return leader.Release(ctx) })
		second, err := b.Election("chief").Campaign(ctx, "b")
		check("election", err)
		if l, err := a.Election("chief").Leader(ctx); err != nil || l.Name != "b" {
			t.Errorf("the leader is %+v, %v", l, err)
		}
		check("election", second.Release(ctx))

		n, err := object.NewAtomicLong(a, "n").Add(ctx, 41)
		check("number", err)
		if m, err := object.NewAtomicLong(b, "n").Add(ctx, 1); err != nil || m != n+1 {
			t.Errorf("%d, %v", m, err)
		}
		value := object.NewBucket(a, "v", object.StringCodec{})
		check("bucket", value.Set(ctx, "x", time.Minute))
		events, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		for e, err := range value.Object().Listen(events) {
			check("listen", err)
			if e.Kind != object.EventExpired {
				t.Errorf("%+v", e)
			}
			break
		}
		seen := make(map[int64]bool)
		for range 100 {
			id, err := object.NewIDGenerator(a, "id").Next(ctx)
			check("id", err)
			if seen[id] {
				t.Errorf("%d twice", id)
			}
			seen[id] = true
		}
	})
}

// The server refuses what needs memory when it is full, and leases can be released.
func TestFill(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server, a, b *holdfast.Client) {
		lease, err := a.Mutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Fill(true)
		if _, err := b.Mutex("y").TryLock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
			t.Errorf("full: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if n := fmt.Sprint(s.Do("EXISTS", "x")); n != "0" {
			t.Error("the lock is still there")
		}
	})
}

// In strict mode a lock needs its replicas.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.NewServer(t)
		c := s.NewClient(&holdfast.Options{Replication: holdfast.Replication{Mode: holdfast.Strict, Replicas: 2}})
		if _, err := c.Mutex("x").TryLock(t.Context(), holdfast.Wait(time.Second)); err == nil {
			t.Error("granted without replicas")
		}
		s.SetReplicas(2)
		lease, err := c.Mutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

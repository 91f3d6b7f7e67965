package behaviour_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// perHour is a rate whose permits do not come back during a test.
func perHour(n int) holdfast.Rate { return holdfast.Rate{Permits: n, Per: time.Hour} }

// The first client that takes permits creates what is declared, and the next one after
// the server has lost its data.
func TestDeclare(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	for range 3 {
		for _, c := range []*holdfast.Client{a, b} {
			leased := c.LeasedSemaphore("leased", holdfast.WithPermits(5))
			l, err := leased.TryAcquire(ctx, 3)
			if err != nil {
				t.Fatal(err)
			}
			locktest.WantPermits(t, leased, 2, 3)
			locktest.Release(t, l)

			sem := c.Semaphore("plain", holdfast.WithPermits(5))
			if err := sem.TryAcquire(ctx, 3); err != nil {
				t.Fatal(err)
			}
			if n, err := sem.Available(ctx); n != 2 || err != nil {
				t.Errorf("%d permits are free, %v", n, err)
			}
			if err := sem.Release(ctx, 3); err != nil {
				t.Error(err)
			}
		}
		limiter := a.RateLimiter("limiter", holdfast.WithRate(perHour(2)))
		for i, want := range []bool{true, true, false} {
			if i == 1 {
				limiter = b.RateLimiter("limiter", holdfast.WithRate(perHour(2)))
				locktest.Eventually(t, 10*time.Second, "the client asks again that was refused a permit", func() bool {
					ok, err := limiter.Allow(ctx)
					return ok || err != nil
				})
				continue
			}
			if ok, err := limiter.Allow(ctx); ok != want || err != nil {
				t.Errorf("Allow %d: %v, %v", i, ok, err)
			}
		}
		s.Do(t, "FLUSHALL")
	}
	if err := a.RateLimiter("waited", holdfast.WithRate(perHour(2))).Wait(ctx); err != nil {
		t.Error(err)
	}
	if _, err := a.RateLimiter("reserved", holdfast.WithRate(perHour(2))).Reserve(ctx); err != nil {
		t.Error(err)
	}
}

// A call that wants more permits than are declared fails at once, because it would wait forever.
// Without a declaration, it waits: another process may add permits.
func TestDeclaredTooFew(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, name := redistest.Shared(t), locktest.Name(t)
	c := locktest.Open(t, s.URL())
	leased, sem := c.LeasedSemaphore(name+"leased", holdfast.WithPermits(2)), c.Semaphore(name+"plain", holdfast.WithPermits(2))
	limiter := c.RateLimiter(name+"limiter", holdfast.WithRate(perHour(2)))
	for call, take := range map[string]func(n int) error{
		"leased.Acquire":    func(n int) error { l, err := leased.Acquire(ctx, n); return released(l, err) },
		"leased.TryAcquire": func(n int) error { l, err := leased.TryAcquire(ctx, n); return released(l, err) },
		"leased.Locker":     func(n int) error { l, err := leased.Locker(n).Lock(ctx); return released(l, err) },
		"leased.Do":         func(n int) error { return leased.Do(ctx, n, func(context.Context) error { return nil }) },
		"sem.Acquire":       func(n int) error { return sem.Acquire(ctx, n) },
		"sem.TryAcquire":    func(n int) error { return sem.TryAcquire(ctx, n) },
		"limiter.WaitN":     func(n int) error { return limiter.WaitN(ctx, n) },
		"limiter.ReserveN":  func(n int) error { _, err := limiter.ReserveN(ctx, n); return err },
		"limiter.AllowN":    func(n int) error { _, err := limiter.AllowN(ctx, n); return err },
	} {
		if err := take(3); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "request fewer") {
			t.Errorf("%s: %v", call, err)
		}
	}
	if n, err := leased.Available(ctx); n != 0 || err != nil {
		t.Errorf("%d permits, %v", n, err)
	}
	if err := errors.Join(leased.Do(ctx, 2, func(context.Context) error { return nil }), sem.Acquire(ctx, 2), limiter.WaitN(ctx, 2)); err != nil {
		t.Error(err)
	}

	waits := make(chan error, 2)
	go func() { l, err := c.LeasedSemaphore(leased.Name()).Acquire(ctx, 3); waits <- released(l, err) }()
	go func() { waits <- c.Semaphore(sem.Name()).Acquire(ctx, 3) }()
	locktest.AwaitWaiting(t, c, 2)
	if err := errors.Join(leased.Set(ctx, 3), sem.Add(ctx, 3)); err != nil {
		t.Fatal(err)
	}
	locktest.Came(t, waits)
	locktest.Came(t, waits)
}

// released releases a lease.
func released(l *holdfast.Lease, err error) error {
	if err == nil {
		err = l.Release(context.Background())
	}
	return err
}

// A call that waits creates what is declared, if the server loses its data meanwhile.
func TestDeclareWhileWaiting(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := locktest.Quick
	a, b := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o)
	held, err := a.LeasedSemaphore("leased", holdfast.WithPermits(1)).Acquire(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Semaphore("plain", holdfast.WithPermits(1)).Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 2)
	go func() {
		l, err := b.LeasedSemaphore("leased", holdfast.WithPermits(1)).Acquire(t.Context(), 1)
		if err == nil {
			err = l.Release(t.Context())
		}
		got <- err
	}()
	go func() { got <- b.Semaphore("plain", holdfast.WithPermits(1)).Acquire(t.Context(), 1) }()
	locktest.AwaitWaiting(t, b, 2)
	s.Do(t, "FLUSHALL")
	for range 2 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if err := held.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the permit of a server that lost its data: %v", err)
	}
}

// A changed number takes effect with the first call of a client that declares it. A
// client changes a number once.
func TestDeclareAnother(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	log := new(locktest.Buffer)
	o := holdfast.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}
	old, fresh := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o)
	take := func(c *holdfast.Client, n int) {
		t.Helper()
		l, err := c.LeasedSemaphore("leased", holdfast.WithPermits(n)).TryAcquire(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Release(context.Background()) })
		if _, err := c.RateLimiter("limiter", holdfast.WithRate(perHour(n))).Allow(ctx); err != nil {
			t.Fatal(err)
		}
	}
	want := func(n, taken int) {
		t.Helper()
		locktest.WantPermits(t, old.LeasedSemaphore("leased"), n-taken, taken)
		l := old.RateLimiter("limiter")
		r, err := l.Rate(ctx)
		free, _ := l.Available(ctx)
		if err != nil || r != perHour(n) || free != n-taken {
			t.Errorf("the rate is %v, %d are free, want %d of %d: %v", r, free, n-taken, n, err)
		}
	}
	take(old, 5)
	want(5, 1)
	take(fresh, 7)
	want(7, 2) // what was taken still counts
	take(old, 5)
	want(7, 3)
	if err := old.LeasedSemaphore("leased").Set(ctx, 9); err != nil { // explicit calls stay
		t.Fatal(err)
	}
	if _, err := old.RateLimiter("limiter").UpdateRate(ctx, perHour(9)); err != nil {
		t.Fatal(err)
	}
	take(fresh, 7)
	want(9, 4)
	// A plain semaphore keeps its number.
	for _, n := range []int{5, 7} {
		if err := fresh.Semaphore("plain", holdfast.WithPermits(n)).TryAcquire(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := fresh.Semaphore("plain").Available(ctx); n != 3 || err != nil {
		t.Errorf("%d permits are free, want 3: %v", n, err)
	}
	for _, c := range []*holdfast.Client{old, fresh} { // all is in the log after that
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if text := log.String(); strings.Count(text, "changed to the declared one") != 2 {
		t.Errorf("the log: %s", text)
	}
}

// Permits that are released after the server lost its data do not create a semaphore with
// their number only.
func TestDeclareAndRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	c := locktest.Open(t, s.URL())
	sem := c.Semaphore("plain", holdfast.WithPermits(5))
	if err := sem.TryAcquire(ctx, 1); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "FLUSHALL")
	if err := sem.Release(ctx, 1); err != nil {
		t.Error(err)
	}
	if err := sem.TryAcquire(ctx, 5); err != nil {
		t.Errorf("not all permits are there: %v", err)
	}
}

// What cannot be declared is refused.
func TestDeclareNonsense(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	ctx := t.Context()
	permits, rate := holdfast.WithPermits(5), holdfast.WithRate(perHour(5))
	name := locktest.Name(t)
	for what, err := range map[string]error{
		"no permits":       second(c.LeasedSemaphore(name, holdfast.WithPermits(0)).Acquire(ctx, 1)),
		"negative permits": c.Semaphore(name, holdfast.WithPermits(-1)).Acquire(ctx, 1),
		"no rate":          c.RateLimiter(name, holdfast.WithRate(holdfast.Rate{})).Wait(ctx),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := redistest.Shared(t).Int(t, "EXISTS", name); n != 0 {
		t.Error("a refused call has left something")
	}
	// Data of another type is refused, not replaced.
	s := redistest.Shared(t)
	s.Do(t, "HSET", name, "a", "b")
	if _, err := c.LeasedSemaphore(name, permits).TryAcquire(ctx, 1); !errors.Is(err, holdfast.ErrRefused) || strings.Count(err.Error(), "refused") > 1 {
		t.Errorf("a hash as a semaphore: %v", err)
	}
	if err := c.RateLimiter(name, rate).Wait(ctx); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("a hash as a limiter: %v", err)
	}
	if s.Int(t, "HLEN", name) != 1 {
		t.Error("the data has changed")
	}
}

package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/observe"
)

func TestRateLimiter(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), locktest.Quick)
	l := c.RateLimiter(locktest.Name(t))
	if _, err := l.Allow(t.Context()); !errors.Is(err, holdfast.ErrNotFound) {
		t.Fatalf("without a rate: %v", err)
	}
	rate := holdfast.Rate{Permits: 2, Per: 2 * locktest.Late}
	if ok, err := l.TrySetRate(t.Context(), rate); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if r, err := l.Rate(t.Context()); r != rate || err != nil {
		t.Fatal(r, err)
	}
	if _, err := l.AllowN(t.Context(), 3); !errors.Is(err, holdfast.ErrInvalid) {
		t.Fatalf("more than the rate: %v", err)
	}
	start := time.Now()
	for i, want := range []bool{true, true, false} {
		if ok, err := l.Allow(t.Context()); ok != want || err != nil {
			t.Fatalf("%d: %v, %v", i, ok, err)
		}
	}
	// Too far ahead: refused at once.
	began := time.Now()
	err := l.Wait(t.Context(), holdfast.Wait(locktest.Late))
	if !errors.Is(err, holdfast.ErrNotAcquired) || holdfast.Remaining(err) < locktest.Late || locktest.Took(began) > locktest.Late {
		t.Fatalf("after %v: %v, remaining %v", time.Since(began), err, holdfast.Remaining(err))
	}
	r, err := l.ReserveN(t.Context(), 2)
	if err != nil || r.Delay() <= time.Second {
		t.Fatal(err, r.Delay())
	}
	// After that one's time.
	later, err := l.Reserve(t.Context())
	if err != nil || later.Delay() <= r.Delay()+time.Second {
		t.Fatal(err, later.Delay())
	}
	for _, r := range []*holdfast.Reservation{r, later} {
		if err := r.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// What a caller that gives up was promised comes back.
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- l.WaitN(ctx, 2) }()
	locktest.Eventually(t, 10*time.Second, "the reservation", func() bool { return s.Do(t, "GET", "{"+l.Name()+"}:value") == "-2" })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	locktest.Eventually(t, 10*time.Second, "the cancellation", func() bool { return s.Do(t, "GET", "{"+l.Name()+"}:value") != "-2" })
	if err := l.WaitN(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < rate.Per-locktest.AWhile {
		t.Errorf("too early: %v", took)
	}
	if n, err := l.Available(t.Context()); n != 0 || err != nil {
		t.Error(n, err)
	}
	if err := l.Release(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Available(t.Context()); n != 2 || err != nil {
		t.Error(n, err)
	}
}

// Reserve says when permits may be used, instead of waiting; however many were
// promised before.
func TestReserveDoesNotWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := locktest.Open(t, s.URL()).RateLimiter(locktest.Name(t))
	if err := l.SetRate(t.Context(), holdfast.Rate{Permits: 1, Per: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for i := range 1100 {
		reserved := make(chan error, 1)
		go func() {
			_, err := l.Reserve(t.Context()) // which has no deadline
			reserved <- err
		}()
		if err, ok := locktest.Receive(reserved, 10*time.Second); !ok || err != nil {
			t.Fatalf("reservation %d, made within 10 s: %v, %v", i, ok, err)
		}
	}
}

// What a client took counts for the whole interval, whatever becomes of the end
// of the limiter.
func TestExpiryOfLimiterPerClient(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	a, b := locktest.Open(t, s.URL()).RateLimiter(n), locktest.Open(t, s.URL()).RateLimiter(n)
	if err := a.SetRate(t.Context(), holdfast.Rate{Permits: 1, Per: time.Hour, PerClient: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := object.Of(b).Expire(t.Context(), 4*time.Second); err != nil {
		t.Fatal(err)
	}
	if ok, err := a.Allow(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if done, err := object.Of(b).Persist(t.Context()); !done || err != nil {
		t.Fatal(done, err)
	}
	s.Do(t, "SET", n+":end", "", "PX", "4000") // expires later than the limiter would have
	locktest.Eventually(t, 20*time.Second, "the end of the limiter", func() bool { return s.Int(t, "EXISTS", n+":end") == 0 })
	if ok, err := a.Allow(t.Context()); ok || err != nil {
		t.Errorf("a second permit of one per hour: %v, %v", ok, err)
	}
}

// One request does not keep the server from all others for long, however many
// were before.
func TestLimiterAfterManyUses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	l := c.RateLimiter("many")
	const rate = 500_000
	if err := l.SetRate(t.Context(), holdfast.Rate{Permits: rate, Per: time.Second}); err != nil {
		t.Fatal(err)
	}
	// As many entries as if each had been taken by itself; not all at once, since
	// a command has ten seconds on a busy machine.
	const step = rate / 20
	for from := 0; from < rate; from += step {
		s.Do(t, "EVAL", `local t = redis.call('time')[1] * 1000 - 5000
for i = ARGV[1] + 1, ARGV[1] + ARGV[2] do redis.call('zadd', KEYS[1], t, struct.pack('Bc0I', 16, string.format('%016d', i), 1)) end
redis.call('set', KEYS[2], 0)`, "2", "{many}:permits", "{many}:value", fmt.Sprint(from), fmt.Sprint(step))
	}
	before := worked(t, s)
	ok, err := l.Allow(t.Context())
	if took := worked(t, s) - before; err != nil || took > 300*time.Millisecond {
		t.Errorf("%v, %v after %v", ok, err, took)
	}
}

// worked returns for how long the server has computed, which is not the time
// that has passed on a busy machine.
func worked(tb testing.TB, s *redistest.Server) time.Duration {
	tb.Helper()
	var sum float64
	for line := range strings.Lines(fmt.Sprint(s.Do(tb, "INFO", "cpu"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "used_cpu_user" || key == "used_cpu_sys" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				tb.Fatal(err)
			}
			sum += n
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// A refused Take says when the permits can be available. Nothing is taken.
func TestTake(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := locktest.Open(t, redistest.Shared(t).URL()).RateLimiter(locktest.Name(t))
	if err := l.SetRate(ctx, holdfast.Rate{Permits: 3, Per: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if after, err := l.Take(ctx); after != 0 || err != nil {
			t.Errorf("free: %v, %v", after, err)
		}
	}
	for range 2 {
		if after, err := l.TakeN(ctx, 2); after <= 50*time.Minute || after > time.Hour+time.Second || err != nil {
			t.Errorf("not free: %v, %v", after, err)
		}
	}
	if after, err := l.Take(ctx); after != 0 || err != nil {
		t.Errorf("a refused call has taken something: %v, %v", after, err)
	}
	if _, err := l.TakeN(ctx, 4); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("more than the rate: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.Take(done); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// A flood of calls that are refused does not reach the server, and each call is
// refused as if it did.
func TestRefusedFlood(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := redistest.NewProxy(t, redistest.Start(t).Addr())
	events := make(chan observe.Event, 10_000)
	c := locktest.Open(t, p.URL(), holdfast.Options{Observers: []observe.Observer{observe.Func(func(e observe.Event) { events <- e })}})
	l := c.RateLimiter(locktest.Name(t))
	locktest.SetRate(t, l, holdfast.Rate{Permits: 3, Per: time.Hour})
	locktest.WantAllow(t, l, 2, true)
	locktest.WantAllow(t, l, 2, false)
	locktest.WantAllow(t, l, 1, true) // fewer than were refused
	failures := c.Stats().Failures
	p.ResetCounts()
	const calls = 1000
	start := time.Now()
	for range calls {
		locktest.WantAllow(t, l, 1, false)
		if after, err := l.TakeN(ctx, 2); after < 59*time.Minute || after > time.Hour+time.Second || err != nil {
			t.Fatal(after, err)
		}
		err := l.WaitN(ctx, 1, holdfast.Wait(0))
		if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left < 59*time.Minute || left > time.Hour+time.Second {
			t.Fatal(left, err)
		}
	}
	most := 2 * (2 + int(time.Since(start)/(5*time.Millisecond))) // a refusal of two does not concern one
	if n := p.Total(); n > most || n == 0 {
		t.Errorf("%d requests for %d calls, want %d at most", n, 3*calls, most)
	}
	if n := c.Stats().Failures - failures; n != 3*calls {
		t.Errorf("%d failures are counted, want %d", n, 3*calls)
	}
	if _, err := l.AllowN(ctx, 4); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("more than the rate: %v", err)
	}
	failed, local := 0, 0
	locktest.Eventually(t, 10*time.Second, "all failures are observed", func() bool {
		for len(events) > 0 {
			if e := <-events; e.Type == observe.Failed && errors.Is(e.Err, holdfast.ErrNotAcquired) {
				failed++
				if e.Looks == 0 {
					local++
				}
			}
		}
		return failed >= 3*calls+1
	})
	if local < 3*calls-most {
		t.Errorf("%d calls are observed as refused without a request", local)
	}
}

// A client that has changed a limiter asks the server at once.
func TestRefusalSeesOwnChanges(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := locktest.Open(t, redistest.Shared(t).URL())
	one, two := holdfast.Rate{Permits: 1, Per: time.Hour}, holdfast.Rate{Permits: 2, Per: time.Hour}
	for what, change := range map[string]func(l *holdfast.RateLimiter) error{
		"SetRate": func(l *holdfast.RateLimiter) error { return l.SetRate(ctx, two) },
		"UpdateRate": func(l *holdfast.RateLimiter) error {
			_, err := l.UpdateRate(ctx, two)
			return err
		},
		"Release": func(l *holdfast.RateLimiter) error { return l.Release(ctx, 1) },
		"Delete and TrySetRate": func(l *holdfast.RateLimiter) error {
			if _, err := object.Of(l).Delete(ctx); err != nil {
				return err
			}
			if _, err := l.Allow(ctx); !errors.Is(err, holdfast.ErrNotFound) {
				return fmt.Errorf("deleted: %w", err)
			}
			_, err := l.TrySetRate(ctx, one)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			for range 20 { // a machine that stands still for 5 ms hides what is wrong
				l := c.RateLimiter(locktest.Name(t))
				locktest.SetRate(t, l, one)
				locktest.WantAllow(t, l, 1, true)
				locktest.WantAllow(t, l, 1, false)
				if err := change(l); err != nil {
					t.Fatal(err)
				}
				locktest.WantAllow(t, l, 1, true)
			}
		})
	}
	t.Run("WithRate", func(t *testing.T) {
		for range 20 {
			l := c.RateLimiter(locktest.Name(t))
			locktest.SetRate(t, l, one)
			locktest.WantAllow(t, l, 1, true)
			locktest.WantAllow(t, l, 1, false)
			locktest.WantAllow(t, c.RateLimiter(l.Name(), holdfast.WithRate(two)), 1, true)
		}
	})
	t.Run("Cancel", func(t *testing.T) {
		for range 20 {
			// The permit is free in a while, but reserved.
			l := c.RateLimiter(locktest.Name(t))
			locktest.SetRate(t, l, holdfast.Rate{Permits: 1, Per: time.Minute})
			locktest.WantAllow(t, l, 1, true)
			r := locktest.Reserve(t, l, 1)
			far, err := l.Take(ctx)
			if err != nil || far < 66*time.Second {
				t.Fatal(far, err)
			}
			if err := r.Cancel(ctx); err != nil {
				t.Fatal(err)
			}
			if near, err := l.Take(ctx); near > time.Minute+time.Millisecond || err != nil {
				t.Errorf("a permit is free in %v after a cancellation, and %v before (%v)", near, far, err)
			}
			_ = l.Release(ctx, 1)
		}
	})
}

package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// The tests in this file are the contract of rate limiters, drawn from
// Redisson's own tests. The number in a test's name is its id. Where times
// differ from the original, it is so that a machine that stands still for a
// moment does not change the result.

func newLimiter(t *testing.T, rate holdfast.Rate) *holdfast.RateLimiter {
	t.Helper()
	l := locktest.Open(t, redistest.Shared(t).URL()).RateLimiter(locktest.Name(t))
	locktest.SetRate(t, l, rate)
	return l
}

// wantAvailable checks how many permits could be had.
func wantAvailable(t *testing.T, l *holdfast.RateLimiter, want int) {
	t.Helper()
	if n, err := l.Available(t.Context()); n != want || err != nil {
		t.Errorf("%d permits are available, %v, want %d", n, err, want)
	}
}

// update changes a rate that there is.
func update(t *testing.T, l *holdfast.RateLimiter, rate holdfast.Rate) {
	t.Helper()
	if ok, err := l.UpdateRate(t.Context(), rate); !ok || err != nil {
		t.Errorf("UpdateRate: %v, %v", ok, err)
	}
}

// elapse makes the permits of a limiter that all clients share as old as if that time had
// passed. The client then forgets that permits were refused.
func elapse(t *testing.T, l *holdfast.RateLimiter, d time.Duration) {
	t.Helper()
	redistest.Shared(t).Do(t, "EVAL", `
		local log = redis.call('zrange', KEYS[1], 0, -1)
		for _, entry in ipairs(log) do redis.call('zincrby', KEYS[1], -ARGV[1], entry) end`,
		"1", "{"+l.Name()+"}:permits", fmt.Sprint(d.Milliseconds()))
	rate, err := l.Rate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	update(t, l, rate)
}

// full waits until all permits are available.
func full(t *testing.T, l *holdfast.RateLimiter, permits int) {
	t.Helper()
	locktest.Eventually(t, 15*time.Second, "all permits are available", func() bool {
		n, err := l.Available(t.Context())
		return n == permits && err == nil
	})
}

func TestRL01KeepAlive(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	l := locktest.Open(t, locktest.Enduring(s.URL())).RateLimiter(locktest.Name(t))
	locktest.SetRate(t, l, holdfast.Rate{Permits: 5, Per: 100 * time.Millisecond, KeepAlive: 8 * time.Second})
	for range 3 {
		ends := locktest.Expiry(t, s, l.Name())
		locktest.AwaitOlder(t, s, l.Name(), 8*time.Second, 200*time.Millisecond)
		if err := l.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := locktest.Expiry(t, s, l.Name()); now <= ends {
			t.Errorf("the limiter ends at %d after a call, and ended at %d before it", now, ends)
		}
	}
	locktest.Eventually(t, 20*time.Second, "all keys are gone", func() bool { return limiterGone(t, s) })
	if _, err := l.Rate(t.Context()); !errors.Is(err, holdfast.ErrNotFound) {
		t.Errorf("Rate: %v", err)
	}
}

// limiterGone tells whether no key is left but those of requests, remembered
// for a while. The keys of a limiter end within the time that one script takes,
// but not at once.
func limiterGone(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	return !slices.ContainsFunc(s.Keys(t), func(key string) bool { return !strings.HasPrefix(key, "holdfast:once:") })
}

// Redisson sets a TTL on all keys at once. Here another client sets one on the
// limiter, and the next use copies it to the other keys, unless the client has used
// it a moment ago.
func TestRL02RL03TTL(t *testing.T) {
	t.Parallel()
	for kind, rate := range map[string]holdfast.Rate{
		"for all": {Permits: 5, Per: time.Minute},
		// The keys of a client expire after the interval. No other client could extend
		// them if the life of the limiter were extended.
		"per client": {Permits: 5, Per: 4 * time.Second, PerClient: true},
	} {
		t.Run(kind, func(t *testing.T) {
			s := redistest.Fresh(t)
			l := locktest.Open(t, locktest.Enduring(s.URL())).RateLimiter(locktest.Name(t))
			locktest.SetRate(t, l, rate)
			locktest.WantAllow(t, l, 2, true)
			s.Do(t, "PEXPIRE", l.Name(), "3000")
			locktest.AwaitOlder(t, s, l.Name(), 3*time.Second, 10*time.Millisecond)
			locktest.WantAllow(t, l, 1, true)
			locktest.Eventually(t, 10*time.Second, "all keys are gone", func() bool { return limiterGone(t, s) })
		})
	}
}

// 500 per 2 s instead of 10,000 per 10 s, and a look every 200 ms. The waiters want
// four times as much at any time, so that a machine that is slow, or stands still
// for two seconds, can keep up.
func TestRL04Saturated(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	l := c.RateLimiter(locktest.Name(t))
	const permits, interval, each = 500, 2000, 5
	locktest.SetRate(t, l, holdfast.Rate{Permits: permits, Per: interval * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 400 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := l.WaitN(ctx, each); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	time.Sleep(interval * time.Millisecond)
	exact := 0
	for range 20 {
		time.Sleep(200 * time.Millisecond)
		// The entries within the interval up to this moment. In one step, since expired
		// entries are removed.
		n := each * s.Int(t, "EVAL", `
			local t = redis.call('time')
			local now = t[1] * 1000 + math.floor(t[2] / 1000)
			return redis.call('zcount', KEYS[1], now - ARGV[1], now)`, "1", "{"+l.Name()+"}:permits", fmt.Sprint(interval))
		if n > permits {
			t.Errorf("%d permits in an interval", n)
		}
		if n == permits {
			exact++
		}
	}
	cancel()
	wg.Wait()
	t.Logf("%d of 20 intervals had exactly %d", exact, permits)
	if exact < 16 {
		t.Errorf("only %d of 20 intervals had exactly %d", exact, permits)
	}
}

func TestRL05SlidingWindow(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, holdfast.Rate{Permits: 2, Per: time.Minute})
	locktest.WantAllow(t, l, 1, true)
	elapse(t, l, 50*time.Second)
	locktest.WantAllow(t, l, 1, true)
	locktest.WantAllow(t, l, 1, false)
	elapse(t, l, 11*time.Second)
	locktest.WantAllow(t, l, 1, true)
	locktest.WantAllow(t, l, 1, false)
}

func TestRL06RL07Config(t *testing.T) {
	t.Parallel()
	l := locktest.Open(t, redistest.Shared(t).URL()).RateLimiter(locktest.Name(t))
	if _, err := l.Rate(t.Context()); !errors.Is(err, holdfast.ErrNotFound) {
		t.Error(err)
	}
	first := holdfast.Rate{Permits: 1, Per: 5 * time.Second, PerClient: true}
	for i, want := range []bool{true, false} {
		if ok, err := l.TrySetRate(t.Context(), holdfast.Rate{Permits: 1 + i, Per: 5 * time.Second, PerClient: true}); ok != want || err != nil {
			t.Errorf("TrySetRate: %v, %v", ok, err)
		}
		if r, err := l.Rate(t.Context()); r != first || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
	for _, next := range []holdfast.Rate{
		{Permits: 2, Per: time.Minute},
		{Permits: 3, Per: time.Hour, PerClient: true, KeepAlive: 2 * time.Hour},
	} {
		locktest.SetRate(t, l, next)
		if r, err := l.Rate(t.Context()); r != next || err != nil {
			t.Errorf("%+v, %v, want %+v", r, err, next)
		}
	}
}

func TestRL08FullAfterIdleInterval(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, minute(10))
	wantAvailable(t, l, 10)
	locktest.WantAllow(t, l, 4, true)
	wantAvailable(t, l, 6)
	elapse(t, l, 61*time.Second)
	wantAvailable(t, l, 10)
}

func TestRL09MoreThanTheRate(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, holdfast.Rate{Permits: 1, Per: time.Minute})
	for call, take := range map[string]func() error{
		"AllowN":   func() error { _, err := l.AllowN(t.Context(), 20); return err },
		"WaitN":    func() error { return l.WaitN(t.Context(), 20) },
		"ReserveN": func() error { _, err := l.ReserveN(t.Context(), 20); return err },
	} {
		if err := take(); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "20 permits") {
			t.Errorf("%s: %v, want ErrInvalid", call, err)
		}
	}
	locktest.WantAllow(t, l, 1, true)
	locktest.WantAllow(t, l, 1, false)
}

func TestRL10ZeroWait(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, minute(5))
	for range 2 {
		for range 5 {
			if err := l.Wait(t.Context(), holdfast.Wait(0)); err != nil {
				t.Error(err)
			}
		}
		if err := l.Wait(t.Context(), holdfast.Wait(0)); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Error(err)
		}
		elapse(t, l, 61*time.Second)
	}
}

func TestRL11WaitTooShort(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, holdfast.Rate{Permits: 1, Per: 20 * time.Second})
	start := time.Now()
	if err := l.Wait(t.Context(), holdfast.Wait(5*time.Second)); err != nil {
		t.Error(err)
	}
	if err := l.Wait(t.Context(), holdfast.Wait(3*time.Second)); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Error(err)
	}
	if took := locktest.Took(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// Ten at one per 300 ms instead of 5 s.
func TestRL12AllReturn(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, holdfast.Rate{Permits: 1, Per: 300 * time.Millisecond})
	start := time.Now()
	locktest.Parallel(10, func(int) {
		if err := l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if took := time.Since(start); took < 2700*time.Millisecond || locktest.Took(start) > 2700*time.Millisecond+5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestRL13TenYesTenNo(t *testing.T) {
	t.Parallel()
	l := locktest.Open(t, redistest.Shared(t).URL()).RateLimiter(locktest.Name(t))
	for i, want := range []bool{true, false, false} {
		if ok, err := l.TrySetRate(t.Context(), holdfast.Rate{Permits: 10, Per: time.Duration(1+i) * time.Minute}); ok != want || err != nil {
			t.Errorf("TrySetRate: %v, %v", ok, err)
		}
	}
	for range 3 {
		for i := range 20 {
			if ok, err := l.Allow(t.Context()); err != nil || ok != (i < 10) {
				t.Errorf("permit %d: %v, %v", i, ok, err)
			}
		}
		elapse(t, l, 61*time.Second)
	}
}

// takeInTurns has eight goroutines take permits one by one, and returns when
// each could be used by the server's clock.
func takeInTurns(t *testing.T, rate holdfast.Rate, takes int) []int64 {
	t.Helper()
	s := redistest.Shared(t)
	c, err := openSpy(locktest.Enduring(s.URL()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter(locktest.Name(t))
	locktest.SetRate(t, l, rate)
	g := newLedger(t, s, l)
	uses := make([]permitUse, takes)
	locktest.Parallel(8, func(i int) {
		for ; i < takes; i += 8 {
			if err := l.Wait(context.WithValue(t.Context(), spyKey{}, &uses[i])); err != nil {
				t.Error(err)
			}
			uses[i].Used = redistest.Now()
			locktest.Work(rand.N(10 * time.Millisecond))
		}
	})
	g.close()
	var at []int64
	for _, m := range g.marks(t, uses) {
		at = append(at, m.at)
	}
	return at
}

// 216 takes instead of 1000, and 4 s instead of one.
func TestRL15NoSecondAboveTheRate(t *testing.T) {
	t.Parallel()
	at := takeInTurns(t, holdfast.Rate{Permits: 72, Per: 4 * time.Second}, 216)
	for i := range at[72:] {
		if d := at[i+72] - at[i]; d <= 4000 {
			t.Fatalf("73 takes in %d ms", d)
		}
	}
}

func TestRL16EveryTenth(t *testing.T) {
	t.Parallel()
	at := takeInTurns(t, holdfast.Rate{Permits: 10, Per: 4 * time.Second}, 30)
	for i := 10; i < len(at); i += 10 {
		if d := at[i] - at[i-10]; d <= 3940 {
			t.Errorf("the %d. take came %d ms after the %d.", i, d, i-10)
		}
	}
}

// Of a limiter per client, what others have of their own ends by itself.
func TestRL14Delete(t *testing.T) {
	t.Parallel()
	for kind, perClient := range map[string]bool{"for all": false, "per client": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Fresh(t)
			l := locktest.Open(t, locktest.Enduring(s.URL())).RateLimiter(locktest.Name(t))
			locktest.SetRate(t, l, holdfast.Rate{Permits: 5, Per: time.Minute, PerClient: perClient})
			locktest.WantAllow(t, l, 2, true)
			for _, want := range []bool{true, false} {
				if deleted, err := object.Of(l).Delete(t.Context()); deleted != want || err != nil {
					t.Errorf("deleted: %v, %v, want %v", deleted, err, want)
				}
			}
			for _, key := range s.Keys(t) {
				if !strings.HasPrefix(key, "holdfast:once:") {
					t.Errorf("%s is left", key)
				}
			}
			if _, err := l.Allow(t.Context()); !errors.Is(err, holdfast.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// The contract of changing a rate. Redisson's setRate can keep what was taken, or
// not. Here SetRate forgets it, and UpdateRate keeps it.

// minute returns a rate per minute.
func minute(permits int) holdfast.Rate { return holdfast.Rate{Permits: permits, Per: time.Minute} }

// own returns the same rate per client.
func own(r holdfast.Rate) holdfast.Rate {
	r.PerClient = true
	return r
}

// bothKinds runs a test for rates of both kinds.
func bothKinds(t *testing.T, test func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate)) {
	t.Parallel()
	t.Run("for all", func(t *testing.T) { test(t, func(r holdfast.Rate) holdfast.Rate { return r }) })
	t.Run("per client", func(t *testing.T) { test(t, own) })
}

func TestRL17SetRateResetsUse(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		for _, n := range []int{10, 5, 20} {
			locktest.SetRate(t, l, kind(minute(n)))
			wantAvailable(t, l, n)
			locktest.WantAllow(t, l, n, true)
			locktest.WantAllow(t, l, 1, false)
		}
	})
}

func TestRL18RL19RL20Replace(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		locktest.WantAllow(t, l, 4, true)
		locktest.SetRate(t, l, kind(minute(10))) // without what was taken
		wantAvailable(t, l, 10)
		locktest.WantAllow(t, l, 4, true)
		update(t, l, kind(minute(10))) // with it
		wantAvailable(t, l, 6)
		locktest.SetRate(t, l, kind(minute(3)))
		wantAvailable(t, l, 3)
	})
}

func TestRL21UpdateOfNone(t *testing.T) {
	t.Parallel()
	l := locktest.Open(t, redistest.Shared(t).URL()).RateLimiter(locktest.Name(t))
	if ok, err := l.UpdateRate(t.Context(), minute(10)); ok || err != nil {
		t.Errorf("UpdateRate: %v, %v", ok, err)
	}
	if _, err := l.Rate(t.Context()); !errors.Is(err, holdfast.ErrNotFound) {
		t.Error(err)
	}
}

func TestRL22UpdateKeepsUse(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		locktest.WantAllow(t, l, 7, true)
		update(t, l, kind(minute(10)))
		wantAvailable(t, l, 3)
		locktest.WantAllow(t, l, 4, false)
		locktest.WantAllow(t, l, 3, true)
	})
}

func TestRL23HigherRate(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		locktest.WantAllow(t, l, 7, true)
		update(t, l, kind(minute(15)))
		wantAvailable(t, l, 8)
		locktest.WantAllow(t, l, 8, true)
		locktest.WantAllow(t, l, 1, false)
	})
}

func TestRL24RL25LowerRate(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		locktest.WantAllow(t, l, 4, true)
		update(t, l, kind(minute(6)))
		wantAvailable(t, l, 2)
		update(t, l, kind(minute(3))) // fewer than were taken
		wantAvailable(t, l, 0)
		locktest.WantAllow(t, l, 1, false)
	})
}

func TestRL26FullAfterIdle(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(holdfast.Rate{Permits: 10, Per: 4 * time.Second}))
		locktest.WantAllow(t, l, 10, true)
		update(t, l, kind(holdfast.Rate{Permits: 4, Per: 4 * time.Second}))
		wantAvailable(t, l, 0)
		full(t, l, 4)
		locktest.WantAllow(t, l, 4, true)
		locktest.WantAllow(t, l, 1, false)
	})
}

func TestRL27OtherKind(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, minute(10))
	locktest.WantAllow(t, l, 7, true)
	update(t, l, own(minute(10)))
	wantAvailable(t, l, 10)
	locktest.WantAllow(t, l, 7, true)
	update(t, l, minute(10))
	wantAvailable(t, l, 10)
}

func TestRL28KeepAliveTooShort(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, minute(10))
	bad := holdfast.Rate{Permits: 10, Per: time.Minute, KeepAlive: time.Minute - time.Millisecond}
	if ok, err := l.UpdateRate(t.Context(), bad); ok || !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("UpdateRate: %v, %v", ok, err)
	}
	if ok, err := l.TrySetRate(t.Context(), bad); ok || !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("TrySetRate: %v, %v", ok, err)
	}
	if err := l.SetRate(t.Context(), bad); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("SetRate: %v", err)
	}
	if r, err := l.Rate(t.Context()); r != minute(10) || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	bad.KeepAlive = time.Minute
	update(t, l, bad)
}

func TestRL29ShorterInterval(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		locktest.WantAllow(t, l, 7, true)
		update(t, l, kind(holdfast.Rate{Permits: 10, Per: 100 * time.Millisecond}))
		full(t, l, 10)
	})
}

func TestRL30PerClient(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a := newLimiter(t, own(minute(10)))
	b := locktest.Open(t, s.URL()).RateLimiter(a.Name())
	locktest.WantAllow(t, a, 7, true)
	wantAvailable(t, a, 3)
	wantAvailable(t, b, 10)
	locktest.WantAllow(t, b, 10, true)
	wantAvailable(t, a, 3)
	update(t, a, own(minute(12)))
	wantAvailable(t, a, 5)
	locktest.WantAllow(t, a, 5, true)
	locktest.WantAllow(t, a, 1, false)
}

func TestRL31GiveBack(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		locktest.WantAllow(t, l, 10, true)
		for _, step := range []struct{ back, available int }{{3, 3}, {0, 3}, {5, 8}, {100, 10}, {1, 10}} {
			if err := l.Release(t.Context(), step.back); err != nil {
				t.Error(err)
			}
			wantAvailable(t, l, step.available)
		}
		if err := l.Release(t.Context(), -1); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("less than nothing: %v", err)
		}
		locktest.WantAllow(t, l, 10, true)
		locktest.WantAllow(t, l, 1, false)
	})
}

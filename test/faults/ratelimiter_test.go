package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A limiterRig is a rate limiter on a client whose replies can be lost.
type limiterRig struct {
	locktest.Rig
	l *holdfast.RateLimiter
}

// newLimiterRig returns a rig whose server knows the scripts, with all permits free.
func newLimiterRig(t *testing.T, rate holdfast.Rate, o ...holdfast.Options) *limiterRig {
	t.Helper()
	r := &limiterRig{Rig: locktest.NewRig(t, redistest.Start(t), "", o...)}
	r.l = r.Client.RateLimiter("rig")
	locktest.SetRate(t, r.l, rate)
	if err := r.l.WaitN(t.Context(), rate.Permits); err != nil {
		t.Fatal(err)
	}
	if err := locktest.Reserve(t, r.l, 1).Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.l.Release(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	locktest.SetRate(t, r.l, rate)
	return r
}

// has checks how many permits are free at the server, less than zero if some
// are taken ahead, and how many entries the log has.
func (r *limiterRig) has(t *testing.T, free, entries int64) {
	t.Helper()
	if f, n := r.Server.Int(t, "GET", "{rig}:value"), r.Server.Int(t, "ZCARD", "{rig}:permits"); f != free || n != entries {
		t.Errorf("%d permits are free after %d entries, want %d after %d", f, n, free, entries)
	}
}

// gets waits until the server has so many free permits.
func (r *limiterRig) gets(t *testing.T, free int64) {
	t.Helper()
	locktest.Eventually(t, 10*time.Second, fmt.Sprintf("%d permits are free", free), func() bool {
		return r.Server.Do(t, "GET", "{rig}:value") == fmt.Sprint(free)
	})
}

var slow = holdfast.Rate{Permits: 10, Per: time.Minute}

// Taken once, although the request ran twice.
func TestTakeReplyLost(t *testing.T) {
	t.Parallel()
	r := newLimiterRig(t, slow)
	stalls := redistest.MeterStalls(t, r.Server)
	start := time.Now()
	ok := false
	excused, err := locktest.LoseReply(stalls, r.Proxy, func() (err error) {
		ok, err = r.l.AllowN(t.Context(), 2)
		return err
	})
	if excused {
		r.gets(t, 10) // it comes back
		locktest.WantAllow(t, r.l, 2, true)
	} else if !ok || err != nil {
		t.Errorf("AllowN: %v, %v", ok, err)
	}
	r.has(t, 8, 1)
	dropped := r.DropNext()
	if err := r.l.WaitN(t.Context(), 3); err != nil {
		t.Error(err)
	}
	<-dropped
	r.has(t, 5, 2)
	dropped = r.DropNext()
	ahead := locktest.Reserve(t, r.l, 6)
	<-dropped
	r.has(t, -1, 3)
	if d := ahead.Delay(); d > time.Minute || d < 50*time.Second-time.Since(start) {
		t.Errorf("delay %v", d)
	}

	lose := func(what string, order func() error) {
		t.Helper()
		if excused, err := locktest.LoseReply(stalls, r.Proxy, order); err != nil && !excused {
			t.Errorf("%s: %v", what, err)
		}
	}
	lose("Cancel", func() error { return ahead.Cancel(t.Context()) })
	r.has(t, 5, 2)
	lose("Release", func() error { return r.l.Release(t.Context(), 2) })
	r.gets(t, 7)
	lose("UpdateRate", func() error {
		ok, err := r.l.UpdateRate(t.Context(), slow)
		if !ok {
			err = errors.Join(err, errors.New("says that there is none"))
		}
		return err
	})
	lose("SetRate", func() error { return r.l.SetRate(t.Context(), slow) })
	locktest.WantAllow(t, r.l, 10, true)
	r.has(t, 0, 1)
}

// The caller gives up while its request is on the way: what it takes comes
// back.
func TestCancelledTakeLeavesNothing(t *testing.T) {
	t.Parallel()
	for call, take := range map[string]func(context.Context, *holdfast.RateLimiter) error{
		"Allow": func(ctx context.Context, l *holdfast.RateLimiter) error {
			_, err := l.AllowN(ctx, 3)
			return err
		},
		"Wait": func(ctx context.Context, l *holdfast.RateLimiter) error { return l.WaitN(ctx, 3) },
		"Reserve": func(ctx context.Context, l *holdfast.RateLimiter) error {
			_, err := l.ReserveN(ctx, 3)
			return err
		},
	} {
		t.Run(call, func(t *testing.T) {
			r := newLimiterRig(t, slow)
			patient := locktest.Open(t, r.Proxy.URL()+"?timeout=20s").RateLimiter("rig") // so that the caller gives up first
			arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
			defer letGo()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				r.has(t, 7, 1)
				cancel()
			}()
			if err := take(ctx, patient); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want context.Canceled", err)
			}
			letGo()
			r.gets(t, 10)
			locktest.WantAllow(t, r.l, 10, true)
		})
	}
}

// A caller that stops waiting returns its reserved permits. Permits that were granted
// in time are not returned.
func TestWaitCancelled(t *testing.T) {
	t.Parallel()
	r := newLimiterRig(t, slow)
	locktest.WantAllow(t, r.l, 10, true)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- r.l.WaitN(ctx, 4) }()
	r.gets(t, -4)
	cancel()
	// Perhaps before the reply with the reservation has arrived.
	if err := <-gone; !errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrNotAcquired) && holdfast.Remaining(err) < 50*time.Second {
		t.Errorf("%v, remaining %v", err, holdfast.Remaining(err))
	}
	r.gets(t, 0)
	r.has(t, 0, 1)

	used := locktest.Reserve(t, r.l, 0)
	if used.Delay() != 0 || used.Cancel(t.Context()) != nil {
		t.Error("a reservation of nothing")
	}
	locktest.SetRate(t, r.l, slow)
	now := locktest.Reserve(t, r.l, 3)
	if err := now.Cancel(t.Context()); err != nil || now.Delay() != 0 {
		t.Error(err, now.Delay())
	}
	r.has(t, 7, 1) // it could be used
}

// A call that cannot be served in time fails at once, and leaves nothing behind.
func TestWaitTooShort(t *testing.T) {
	t.Parallel()
	r := newLimiterRig(t, slow)
	locktest.WantAllow(t, r.l, 10, true)
	r.Proxy.ResetCounts()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for call, take := range map[string]func() error{
		"deadline": func() error { return r.l.Wait(ctx) },
		"option":   func() error { return r.l.Wait(t.Context(), holdfast.Wait(20*time.Second)) },
		"reserve": func() error {
			_, err := r.l.Reserve(ctx)
			return err
		},
	} {
		start := time.Now()
		err := take()
		if took := locktest.Took(start); took > 5*time.Second {
			t.Errorf("%s: took %v", call, took)
		}
		if !errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, context.DeadlineExceeded) || holdfast.Remaining(err) < 40*time.Second {
			t.Errorf("%s: %v, remaining %v", call, err, holdfast.Remaining(err))
		}
	}
	r.has(t, 0, 1)
	if n := r.Proxy.Count("EVALSHA"); n != 3 {
		t.Errorf("%d commands for three calls", n)
	}
}

// A wait costs one command at most, however long it is.
func TestWaitIsOneCommand(t *testing.T) {
	t.Parallel()
	r := newLimiterRig(t, holdfast.Rate{Permits: 10, Per: time.Second})
	r.Proxy.ResetCounts()
	start := time.Now()
	locktest.Parallel(30, func(int) {
		if err := r.l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if took := time.Since(start); took < 2*time.Second-locktest.AWhile {
		t.Errorf("30 permits at 10 per second took %v", took)
	}
	// Some of them travel together, and a script that the server does not know is sent twice.
	if n := r.Proxy.Count("EVALSHA") + r.Proxy.Count("EVAL"); n > 30 {
		t.Errorf("%d commands for 30 waits", n)
	}
}

// A server that has lost its memory says what to do.
func TestLimiterRestartedEmpty(t *testing.T) {
	t.Parallel()
	r := newLimiterRig(t, slow)
	r.Server.Restart()
	locktest.Eventually(t, 10*time.Second, "connected again", func() bool {
		_, err := r.l.Rate(t.Context())
		return !errors.Is(err, holdfast.ErrUnavailable)
	})
	for call, do := range map[string]func() error{
		"Allow": func() error { _, err := r.l.Allow(t.Context()); return err },
		"Wait":  func() error { return r.l.Wait(t.Context()) },
		"Reserve": func() error {
			_, err := r.l.Reserve(t.Context())
			return err
		},
		"Rate":      func() error { _, err := r.l.Rate(t.Context()); return err },
		"Available": func() error { _, err := r.l.Available(t.Context()); return err },
		"Release":   func() error { return r.l.Release(t.Context(), 1) },
	} {
		err := do()
		if !errors.Is(err, holdfast.ErrNotFound) || !strings.Contains(fmt.Sprint(err), "TrySetRate") || !strings.Contains(fmt.Sprint(err), `"rig"`) {
			t.Errorf("%s: %v, want ErrNotFound, and to hear of TrySetRate", call, err)
		}
	}
	if ok, err := r.l.UpdateRate(t.Context(), slow); ok || err != nil {
		t.Errorf("UpdateRate: %v, %v", ok, err)
	}
	if ok, err := r.l.TrySetRate(t.Context(), slow); !ok || err != nil {
		t.Errorf("TrySetRate: %v, %v", ok, err)
	}
	locktest.WantAllow(t, r.l, 10, true)
}

// A caller with a granted time waits for it without the server. Other callers wait
// for the server.
func TestLimiterServerAway(t *testing.T) {
	t.Parallel()
	const per = 4 * time.Second
	r := newLimiterRig(t, holdfast.Rate{Permits: 2, Per: per})
	start := time.Now()
	locktest.WantAllow(t, r.l, 2, true)
	done := make(chan error, 1)
	go func() { done <- r.l.WaitN(t.Context(), 2) }()
	r.gets(t, -2)
	// Its answer is there, too, once a later one on the same connection is.
	if _, err := r.l.Available(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	lasted := redistest.Outage(per+locktest.AWhile, r.Server.Pause, nil)
	defer r.Server.Resume()
	go func() { asked <- r.l.Wait(t.Context()) }()
	if err := <-done; err != nil {
		t.Errorf("with a promise: %v", err)
	}
	if took := time.Since(start); took < per-100*time.Millisecond {
		t.Errorf("after %v", took)
	}
	<-lasted
	select {
	case err := <-asked:
		t.Errorf("without a server: %v", err)
	default:
	}
	r.Server.Resume()
	if err := <-asked; err != nil {
		t.Errorf("the server is back: %v", err)
	}
	if took := time.Since(start); took < 2*per-100*time.Millisecond {
		t.Errorf("the third of two in an interval, after %v", took)
	}
}

// Close ends the waits, and returns the reserved permits.
func TestLimiterClose(t *testing.T) {
	redistest.CheckGoroutines(t)
	r := newLimiterRig(t, slow)
	locktest.WantAllow(t, r.l, 10, true)
	const waiters = 5
	errs := make(chan error, waiters)
	for range waiters {
		go func() { errs <- r.l.Wait(context.Background()) }()
	}
	r.gets(t, -waiters)
	start := time.Now()
	if err := r.Client.Close(); err != nil {
		t.Error(err)
	}
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("Close took %v", took)
	}
	for range waiters {
		if err := <-errs; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("waiter: %v", err)
		}
	}
	r.has(t, 0, 1)
	if _, err := r.l.Allow(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// That there is no rate, or that the rate is too low, is an answer: nothing was
// taken, so there is nothing to take back.
func TestLimiterAnswersAreNotInDoubt(t *testing.T) {
	t.Parallel()
	r := newLimiterRig(t, slow, holdfast.Options{RetryTimeout: 400 * time.Millisecond})
	r.Proxy.ResetCounts()
	if _, err := r.l.AllowN(t.Context(), 11); !errors.Is(err, holdfast.ErrInvalid) {
		t.Error(err)
	}
	r.Server.Do(t, "DEL", "rig")
	if _, err := r.l.Allow(t.Context()); !errors.Is(err, holdfast.ErrNotFound) {
		t.Error(err)
	}
	if err := r.Client.Close(); err != nil { // what is to be done in the background is done
		t.Error(err)
	}
	if n := r.Proxy.Count("EVALSHA"); n != 2 {
		t.Errorf("%d commands for two calls", n)
	}
}

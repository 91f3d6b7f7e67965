package behaviour_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Waiters in a process are served FIFO, however many permits they request. A try
// does not overtake them.
func TestSemaphoreOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), locktest.Quick)
	sem := c.Semaphore(locktest.Name(t))
	if ok, err := sem.TrySet(t.Context(), 3, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := sem.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var order atomic.Int32
	turns := make(chan int32, 2)
	go func() {
		_ = sem.Acquire(context.Background(), 3)
		turns <- order.Add(1)
		_ = sem.Release(context.Background(), 3)
	}()
	locktest.AwaitListener(t, s, "redisson_sc:{"+sem.Name()+"}")
	second := make(chan int32, 1)
	go func() {
		_ = sem.Acquire(context.Background(), 1)
		second <- order.Add(1)
	}()
	locktest.AwaitWaiting(t, c, 2)
	if err := sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Fatalf("pushed in: %v", err)
	}
	if n, err := sem.Available(t.Context()); n != 2 || err != nil {
		t.Fatalf("%d free, %v", n, err)
	}
	if err := sem.Release(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if a, b := <-turns, <-second; a != 1 || b != 2 {
		t.Errorf("the waiter for three came as number %d, the later one as number %d", a, b)
	}
}

// The error of a semaphore that does not exist says so, whether the call waits or not.
// That of a semaphore without free permits does not.
func TestMissingSemaphoreIsNotFound(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := locktest.Open(t, redistest.Fresh(t).URL())
	wait := holdfast.Wait(100 * time.Millisecond)
	for kind, take := range map[string]func(...holdfast.WaitOption) error{
		"plain": func(o ...holdfast.WaitOption) error { return c.Semaphore("plain").TryAcquire(ctx, 1, o...) },
		"leased": func(o ...holdfast.WaitOption) error {
			_, err := c.LeasedSemaphore("leased").TryAcquire(ctx, 1)
			if len(o) > 0 {
				_, err = c.LeasedSemaphore("leased").Acquire(ctx, 1, o[0])
			}
			return err
		},
	} {
		for call, err := range map[string]error{"try": take(), "wait": take(wait)} {
			if !errors.Is(err, holdfast.ErrNotFound) || !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("%s, %s: %v", kind, call, err)
			}
		}
		if _, err := c.Semaphore(kind).TrySet(ctx, 0, 0); err != nil {
			t.Fatal(err)
		}
		for call, err := range map[string]error{"try": take(), "wait": take(wait)} {
			if errors.Is(err, holdfast.ErrNotFound) || !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("%s without free permits, %s: %v", kind, call, err)
			}
		}
	}
}

// A wait for a semaphore that does not exist is not silent.
func TestWaitForMissingSemaphore(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	for kind, acquire := range map[string]func(*holdfast.Client, context.Context) error{
		"plain": func(c *holdfast.Client, ctx context.Context) error { return c.Semaphore("plain").Acquire(ctx, 1) },
		"leased": func(c *holdfast.Client, ctx context.Context) error {
			return c.LeasedSemaphore("leased").Do(ctx, 1, func(context.Context) error { return nil })
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			log := new(locktest.Buffer)
			o := locktest.Quick
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
			c := locktest.Open(t, s.URL(), o)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- acquire(c, ctx) }()
			locktest.Eventually(t, 10*time.Second, "a word in the log", func() bool {
				return strings.Contains(log.String(), "does not exist") && strings.Contains(log.String(), "name="+kind) && strings.Contains(log.String(), "TrySet")
			})
			if n := strings.Count(log.String(), "\n"); n != 1 {
				t.Errorf("%d lines in the log", n)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// A logger that blocks keeps no waiter from its permit.
func TestWaitForMissingSemaphoreBlockedLogger(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	blocked := &blockedWriter{began: make(chan struct{}), release: make(chan struct{})}
	t.Cleanup(func() { close(blocked.release) })
	o := locktest.Quick
	o.Logger = slog.New(slog.NewTextHandler(blocked, nil))
	sem := locktest.Open(t, s.URL(), o).Semaphore("missing")
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- sem.Acquire(t.Context(), 1) }()
	}
	<-blocked.began
	if _, err := locktest.Open(t, s.URL()).Semaphore("missing").TrySet(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

type blockedWriter struct{ began, release chan struct{} }

func (b *blockedWriter) Write(p []byte) (int, error) {
	select {
	case <-b.began:
	default:
		close(b.began)
	}
	<-b.release
	return len(p), nil
}

// Whatever a call is about, its error says which one it was.
func TestReleaseOfNoneSaysWhatFailed(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	var failed *holdfast.Error
	if err := c.Semaphore("").Release(t.Context(), 0); !errors.Is(err, holdfast.ErrInvalid) || !errors.As(err, &failed) {
		t.Errorf("error %v", err)
	}
}

// With Poll there is no subscription.
func TestSemaphoreAndLatchPoll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c, holder := locktest.Open(t, p.URL()), locktest.Open(t, s.URL())
	sem, latch := locktest.NewSemaphore(t, holder, "sem", 0), locktest.NewLatch(t, holder, "latch", 1)
	done := make(chan error, 2)
	poll := holdfast.Poll(holdfast.Backoff{})
	go func() { done <- c.Semaphore("sem", poll).Acquire(t.Context(), 1) }()
	go func() { done <- c.Latch("latch").Wait(t.Context(), poll) }()
	locktest.AwaitWaiting(t, c, 2)
	locktest.ReleasePermits(t, sem, 1)
	locktest.CountDown(t, latch, 0)
	locktest.Came(t, done)
	locktest.Came(t, done)
	if n := p.Count("SUBSCRIBE"); n > 0 {
		t.Errorf("%d subscriptions", n)
	}
}

func TestCloseWhileWaitingForPermits(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	holder, c := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	sem := locktest.NewSemaphore(t, holder, "sem", 2)
	locktest.Acquire(t, sem, 1)
	locktest.NewLatch(t, holder, "latch", 1)
	errs := make(chan error)
	for i := range 12 {
		go func() {
			switch i % 3 {
			case 0:
				errs <- c.Semaphore("sem").Acquire(context.Background(), 2)
			case 1:
				errs <- c.Semaphore("sem").Acquire(context.Background(), 2, holdfast.Wait(time.Minute))
			default:
				errs <- c.Latch("latch").Wait(context.Background())
			}
		}()
	}
	locktest.Eventually(t, 10*time.Second, "subscribed", func() bool { return len(s.Channels(t)) == 2 })
	start := time.Now()
	_ = c.Close()
	for range 12 {
		if err := <-errs; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("waiter: %v", err)
		}
	}
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("Close took %v", took)
	}
	if free := s.Do(t, "GET", "sem"); free != "1" {
		t.Errorf("%v permits are free", free)
	}
	for what, err := range map[string]error{
		"acquire":     c.Semaphore("sem").Acquire(t.Context(), 1),
		"try acquire": c.Semaphore("sem").TryAcquire(t.Context(), 1),
		"release":     c.Semaphore("sem").Release(t.Context(), 1),
		"wait":        c.Latch("latch").Wait(t.Context()),
	} {
		if !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	if _, err := c.Latch("latch").CountDown(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("count down after Close: %v", err)
	}
	locktest.Eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
}

package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// semaphore returns one with that many permits, or one that is not set up if
// that is negative.
func semaphore(tb testing.TB, c *holdfast.Client, name string, permits int) *holdfast.Semaphore {
	tb.Helper()
	sem := c.Semaphore(name)
	if permits >= 0 {
		if ok, err := sem.TrySet(context.Background(), permits, 0); !ok || err != nil {
			tb.Fatalf("set up: %v, %v", ok, err)
		}
	}
	return sem
}

// take takes permits, or ends the test.
func take(tb testing.TB, sem *holdfast.Semaphore, permits int) {
	tb.Helper()
	if err := sem.Acquire(context.Background(), permits); err != nil {
		tb.Fatal(err)
	}
}

// giveBack gives permits back, or marks the test as failed.
func giveBack(tb testing.TB, sem *holdfast.Semaphore, permits int) {
	tb.Helper()
	if err := sem.Release(context.Background(), permits); err != nil {
		tb.Error(err)
	}
}

// hasFree checks how many permits are free.
func hasFree(tb testing.TB, sem *holdfast.Semaphore, want int) {
	tb.Helper()
	if n, err := sem.Available(context.Background()); n != want || err != nil {
		tb.Errorf("%d permits are free, want %d; %v", n, want, err)
	}
}

// refused checks that permits are not there for who does not wait.
func refused(tb testing.TB, sem *holdfast.Semaphore, permits int) {
	tb.Helper()
	start := time.Now()
	if err := sem.TryAcquire(context.Background(), permits); !errors.Is(err, holdfast.ErrNotAcquired) {
		tb.Errorf("TryAcquire of %d: %v", permits, err)
	}
	if took := time.Since(start); took > late {
		tb.Errorf("the answer took %v", took)
	}
}

// taking takes permits in another goroutine. It returns when that waits.
func taking(tb testing.TB, s *redistest.Server, sem *holdfast.Semaphore, permits int) <-chan error {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- sem.Acquire(context.Background(), permits) }()
	listened(tb, s, "redisson_sc:{"+sem.Name()+"}")
	return done
}

// came checks that a call in the background returns without an error, earlier
// than one would that has heard no message.
func came(tb testing.TB, done <-chan error) {
	tb.Helper()
	select {
	case err := <-done:
		if err != nil {
			tb.Fatal(err)
		}
	case <-time.After(late):
		tb.Fatal("still waiting")
	}
}

// waits checks that a call in the background does not return for a while.
func waits(tb testing.TB, done <-chan error) {
	tb.Helper()
	select {
	case err := <-done:
		tb.Fatalf("did not wait: %v", err)
	case <-time.After(aWhile):
	}
}

// Inside a process permits go to those who came first, also to those who want
// many, and who only tries does not push in.
func TestSemaphoreOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), quick)
	sem := c.Semaphore(name(t))
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
	listened(t, s, "redisson_sc:{"+sem.Name()+"}")
	second := make(chan int32, 1)
	go func() {
		_ = sem.Acquire(context.Background(), 1)
		second <- order.Add(1)
	}()
	time.Sleep(aWhile)
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
		t.Errorf("who wanted three came %d., who came later %d.", a, b)
	}
}

func TestLatchWait(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), quick)
	l := c.Latch(name(t))
	if ok, err := l.TrySet(t.Context(), 2); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := l.Wait(t.Context(), holdfast.Wait(0)); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Fatal(err)
	}
	done := make(chan error, 3)
	for range 3 {
		go func() { done <- l.Wait(t.Context()) }()
	}
	listened(t, s, "redisson_countdownlatch__channel__{"+l.Name()+"}")
	for range 2 {
		if _, err := l.CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// listened waits until somebody listens on a channel.
func listened(tb testing.TB, s *redistest.Server, channel string) {
	tb.Helper()
	eventually(tb, 10*time.Second, "a subscription of "+channel, func() bool {
		return len(s.Strings(tb, "PUBSUB", "CHANNELS", channel)) == 1
	})
}

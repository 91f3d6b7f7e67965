package locktest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// NewSemaphore returns a semaphore with that many permits. If the number is
// negative, the semaphore is not set up.
func NewSemaphore(tb testing.TB, c *holdfast.Client, name string, permits int) *holdfast.Semaphore {
	tb.Helper()
	sem := c.Semaphore(name)
	if permits >= 0 {
		if ok, err := sem.TrySet(context.Background(), permits, 0); !ok || err != nil {
			tb.Fatalf("set up: %v, %v", ok, err)
		}
	}
	return sem
}

// Acquire acquires permits, or ends the test.
func Acquire(tb testing.TB, sem *holdfast.Semaphore, permits int) {
	tb.Helper()
	if err := sem.Acquire(context.Background(), permits); err != nil {
		tb.Fatal(err)
	}
}

// ReleasePermits releases permits, or marks the test as failed.
func ReleasePermits(tb testing.TB, sem *holdfast.Semaphore, permits int) {
	tb.Helper()
	if err := sem.Release(context.Background(), permits); err != nil {
		tb.Error(err)
	}
}

// WantFreePermits checks how many permits are free.
func WantFreePermits(tb testing.TB, sem *holdfast.Semaphore, want int) {
	tb.Helper()
	if n, err := sem.Available(context.Background()); n != want || err != nil {
		tb.Errorf("%d permits are free, want %d; %v", n, want, err)
	}
}

// Acquiring acquires permits in another goroutine, and returns when that goroutine
// waits.
func Acquiring(tb testing.TB, s *redistest.Server, sem *holdfast.Semaphore, permits int) <-chan error {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- sem.Acquire(context.Background(), permits) }()
	AwaitListener(tb, s, "redisson_sc:{"+sem.Name()+"}")
	return done
}

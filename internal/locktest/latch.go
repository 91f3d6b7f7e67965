package locktest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// NewLatch returns a latch with the given count.
func NewLatch(tb testing.TB, c *holdfast.Client, name string, count int) *holdfast.Latch {
	tb.Helper()
	l := c.Latch(name)
	if ok, err := l.TrySet(context.Background(), count); !ok || err != nil {
		tb.Fatalf("set up: %v, %v", ok, err)
	}
	return l
}

// CountDown counts a latch down and checks the new count.
func CountDown(tb testing.TB, l *holdfast.Latch, left int) {
	tb.Helper()
	if n, err := l.CountDown(context.Background()); n != left || err != nil {
		tb.Errorf("%d are left, want %d; %v", n, left, err)
	}
}

// WantCount checks the count of a latch.
func WantCount(tb testing.TB, l *holdfast.Latch, want int) {
	tb.Helper()
	if n, err := l.Count(context.Background()); n != want || err != nil {
		tb.Errorf("the count is %d, want %d; %v", n, want, err)
	}
}

// AwaitingLatch waits for a latch in another goroutine, and returns when that
// goroutine waits.
func AwaitingLatch(tb testing.TB, s *redistest.Server, l *holdfast.Latch) <-chan error {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- l.Wait(context.Background()) }()
	AwaitListener(tb, s, LatchChannel(l))
	return done
}

// LatchChannel returns the channel on which a latch is announced to be open.
func LatchChannel(l *holdfast.Latch) string {
	return "redisson_countdownlatch__channel__{" + l.Name() + "}"
}

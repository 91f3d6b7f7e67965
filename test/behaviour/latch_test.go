package behaviour_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestLatchWait(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), locktest.Quick)
	l := c.Latch(locktest.Name(t))
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
	locktest.AwaitListener(t, s, "redisson_countdownlatch__channel__{"+l.Name()+"}")
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

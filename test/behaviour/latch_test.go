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

// Reset sets the count of an open and of a closed latch. Who waits, waits for the new count.
func TestLatchReset(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, name := redistest.Shared(t), locktest.Name(t)
	other := locktest.Open(t, s.URL())
	a, b := locktest.Open(t, s.URL()).Latch(name), other.Latch(name)
	counts := func(want int) {
		t.Helper()
		if n, err := b.Count(ctx); n != want || err != nil {
			t.Errorf("the count is %d, %v, want %d", n, err, want)
		}
	}
	if err := a.Reset(ctx, 1); err != nil {
		t.Fatal(err)
	}
	counts(1)
	waited := make(chan error, 1)
	go func() { waited <- b.Wait(ctx) }()
	locktest.AwaitListener(t, s, "redisson_countdownlatch__channel__{"+name+"}")
	if err := a.Reset(ctx, 2); err != nil {
		t.Fatal(err)
	}
	counts(2)
	for left := 1; left >= 0; left-- {
		locktest.WantWaiting(t, other, waited)
		if n, err := a.CountDown(ctx); n != left || err != nil {
			t.Fatal(n, err)
		}
	}
	if err, ok := locktest.Receive(waited, locktest.Late); !ok || err != nil {
		t.Error(ok, err)
	}
	if err := a.Reset(ctx, 0); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a count of zero: %v", err)
	}
	s.Do(t, "SET", name, "data")
	if err := a.Reset(ctx, 1); !errors.Is(err, holdfast.ErrRefused) || s.Do(t, "GET", name) != "data" {
		t.Errorf("other data: %v", err)
	}
	s.Do(t, "DEL", name)
}

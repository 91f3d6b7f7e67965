package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestRateLimiter(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), quick)
	l := c.RateLimiter(name(t))
	if _, err := l.Allow(t.Context()); !errors.Is(err, holdfast.ErrNotFound) {
		t.Fatalf("without a rate: %v", err)
	}
	rate := holdfast.Rate{Permits: 2, Per: 2 * late}
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
	err := l.Wait(t.Context(), holdfast.Wait(late))
	if !errors.Is(err, holdfast.ErrNotAcquired) || holdfast.Remaining(err) < late || time.Since(began) > late {
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
	eventually(t, 10*time.Second, "the reservation", func() bool { return s.Do(t, "GET", "{"+l.Name()+"}:value") == "-2" })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the cancellation", func() bool { return s.Do(t, "GET", "{"+l.Name()+"}:value") != "-2" })
	if err := l.WaitN(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < rate.Per-aWhile {
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

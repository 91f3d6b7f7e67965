package behaviour_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

func TestAtomicLong(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, n := t.Context(), object.NewAtomicLong(locktest.Open(t, s.URL()), "n")
	is := func(want int64) func(int64, error) {
		return func(got int64, err error) {
			t.Helper()
			if got != want || err != nil {
				t.Fatalf("%d, %v, want %d", got, err, want)
			}
		}
	}
	yes, no := want(t, true), want(t, false)
	is(0)(n.Load(ctx))
	yes(n.CompareAndSwap(ctx, 0, math.MaxInt64-1))
	no(n.CompareAndSwap(ctx, math.MaxInt64, 1))
	is(math.MaxInt64)(n.Add(ctx, 1))
	if _, err := n.Add(ctx, 1); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("overflow: %v", err)
	}
	is(math.MaxInt64)(n.Load(ctx))
	is(-1)(n.Add(ctx, math.MinInt64))
	is(-1)(n.Swap(ctx, math.MinInt64))
	yes(n.CompareAndSwap(ctx, math.MinInt64, math.MinInt64+1))
	is(math.MinInt64 + 1)(n.LoadAndDelete(ctx))
	is(0)(n.LoadAndDelete(ctx))
	s.Do(t, "SET", "n", "5", "EX", "100")
	is(6)(n.Add(ctx, 1))
	if s.Int(t, "TTL", "n") < 0 {
		t.Error("adding ends the TTL")
	}
	if err := n.Store(ctx, 7); err != nil || s.Int(t, "TTL", "n") != -1 {
		t.Errorf("store: %v, the TTL stays", err)
	}
	s.Do(t, "SET", "n", "precious")
	for what, err := range map[string]error{"load": second(n.Load(ctx)), "swap": second(n.Swap(ctx, 1)), "delete": second(n.LoadAndDelete(ctx))} {
		if !errors.Is(err, holdfast.ErrRefused) || strings.Contains(err.Error(), "precious") {
			t.Errorf("%s of what is no number: %v", what, err)
		}
	}
	if s.Do(t, "GET", "n") != "precious" {
		t.Error("overwritten")
	}
}

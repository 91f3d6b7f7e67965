package holdfast_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The contract of those who change a rate. Redisson's setRate can keep what was
// taken, or not; here SetRate forgets it, and UpdateRate keeps it.

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
			setRate(t, l, kind(minute(n)))
			wantAvailable(t, l, n)
			allow(t, l, n, true)
			allow(t, l, 1, false)
		}
	})
}

func TestRL18RL19RL20Replace(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		allow(t, l, 4, true)
		setRate(t, l, kind(minute(10))) // without what was taken
		wantAvailable(t, l, 10)
		allow(t, l, 4, true)
		update(t, l, kind(minute(10))) // with it
		wantAvailable(t, l, 6)
		setRate(t, l, kind(minute(3)))
		wantAvailable(t, l, 3)
	})
}

func TestRL21UpdateOfNone(t *testing.T) {
	t.Parallel()
	l := open(t, redistest.Shared(t).URL()).RateLimiter(name(t))
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
		allow(t, l, 7, true)
		update(t, l, kind(minute(10)))
		wantAvailable(t, l, 3)
		allow(t, l, 4, false)
		allow(t, l, 3, true)
	})
}

func TestRL23HigherRate(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		allow(t, l, 7, true)
		update(t, l, kind(minute(15)))
		wantAvailable(t, l, 8)
		allow(t, l, 8, true)
		allow(t, l, 1, false)
	})
}

func TestRL24RL25LowerRate(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		allow(t, l, 4, true)
		update(t, l, kind(minute(6)))
		wantAvailable(t, l, 2)
		update(t, l, kind(minute(3))) // fewer than were taken
		wantAvailable(t, l, 0)
		allow(t, l, 1, false)
	})
}

func TestRL26FullAfterIdle(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(holdfast.Rate{Permits: 10, Per: 4 * time.Second}))
		allow(t, l, 10, true)
		update(t, l, kind(holdfast.Rate{Permits: 4, Per: 4 * time.Second}))
		wantAvailable(t, l, 0)
		full(t, l, 4)
		allow(t, l, 4, true)
		allow(t, l, 1, false)
	})
}

func TestRL27OtherKind(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, minute(10))
	allow(t, l, 7, true)
	update(t, l, own(minute(10)))
	wantAvailable(t, l, 10)
	allow(t, l, 7, true)
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
		allow(t, l, 7, true)
		time.Sleep(200 * time.Millisecond)
		update(t, l, kind(holdfast.Rate{Permits: 10, Per: 100 * time.Millisecond}))
		wantAvailable(t, l, 10)
	})
}

func TestRL30PerClient(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a := newLimiter(t, own(minute(10)))
	b := open(t, s.URL()).RateLimiter(a.Name())
	allow(t, a, 7, true)
	wantAvailable(t, a, 3)
	wantAvailable(t, b, 10)
	allow(t, b, 10, true)
	wantAvailable(t, a, 3)
	update(t, a, own(minute(12)))
	wantAvailable(t, a, 5)
	allow(t, a, 5, true)
	allow(t, a, 1, false)
}

func TestRL31GiveBack(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind func(holdfast.Rate) holdfast.Rate) {
		l := newLimiter(t, kind(minute(10)))
		allow(t, l, 10, true)
		for _, step := range []struct{ back, available int }{{3, 3}, {0, 3}, {5, 8}, {100, 10}, {1, 10}} {
			if err := l.Release(t.Context(), step.back); err != nil {
				t.Error(err)
			}
			wantAvailable(t, l, step.available)
		}
		if err := l.Release(t.Context(), -1); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("less than nothing: %v", err)
		}
		allow(t, l, 10, true)
		allow(t, l, 1, false)
	})
}

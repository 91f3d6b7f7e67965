package holdfast

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestPL08Backoff(t *testing.T) {
	const ms = time.Millisecond
	type span struct{ low, high time.Duration }
	for _, tt := range []struct {
		name    string
		backoff Backoff
		pauses  []span // after the first failure, the second, ...
	}{
		{
			"exponential",
			Backoff{Initial: 10 * ms, Max: 100 * ms, Multiplier: 3},
			[]span{{10 * ms, 10 * ms}, {30 * ms, 31 * ms}, {90 * ms, 95 * ms}, {100 * ms, 100 * ms}, {100 * ms, 100 * ms}},
		},
		{
			"constant",
			Backoff{Initial: 30 * ms, Multiplier: 1},
			[]span{{30 * ms, 30 * ms}, {30 * ms, 30 * ms}, {30 * ms, 30 * ms}},
		},
		{
			"default",
			Backoff{},
			[]span{{ms, ms}, {2 * ms, 3 * ms}, {4 * ms, 8 * ms}, {8 * ms, 19 * ms}},
		},
		{
			"huge multiplier",
			Backoff{Initial: 10 * ms, Max: 100 * ms, Multiplier: math.MaxInt},
			[]span{{10 * ms, 10 * ms}, {100 * ms, 100 * ms}, {100 * ms, 100 * ms}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.backoff.withDefaults()
			for range 100 { // each time with another jitter
				for i, want := range tt.pauses {
					if d := b.pause(i + 1); d < want.low || d > want.high {
						t.Fatalf("pause %d is %v, want %v to %v", i+1, d, want.low, want.high)
					}
				}
			}
			if d := b.pause(1000); d != b.Max && b.Multiplier > 1 {
				t.Errorf("pause 1000 is %v, want the longest, %v", d, b.Max)
			}
		})
	}
}

func TestPL08BackoffJitter(t *testing.T) {
	b := Backoff{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond, Multiplier: 3}
	first := b.pause(3)
	for range 100 {
		if b.pause(3) != first {
			return
		}
	}
	t.Errorf("pause 3 is always %v", first)
}

func TestPL08BackoffInvalid(t *testing.T) {
	for _, b := range []Backoff{
		{Initial: -1},
		{Max: -1},
		{Multiplier: -1},
		{Initial: 2 * time.Second, Max: time.Second},
		{Max: time.Hour + 1},
		{Initial: 2 * time.Hour},
	} {
		if _, err := new(Client).Mutex("m", Poll(b)).Lock(t.Context()); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: error %v, want ErrInvalid", b, err)
		}
	}
}

package holdfast_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// That there is no rate, or that the rate is too low, is an answer: nothing was
// taken, so there is nothing to take back.
func TestLimiterAnswersAreNotInDoubt(t *testing.T) {
	t.Parallel()
	r := newLimiterRig(t, slow, holdfast.Options{RetryTimeout: 400 * time.Millisecond})
	r.p.ResetCounts()
	if _, err := r.l.AllowN(t.Context(), 11); !errors.Is(err, holdfast.ErrInvalid) {
		t.Error(err)
	}
	r.s.Do(t, "DEL", "rig")
	if _, err := r.l.Allow(t.Context()); !errors.Is(err, holdfast.ErrNotFound) {
		t.Error(err)
	}
	time.Sleep(500 * time.Millisecond) // what is sent in the background would be by now
	if n := r.p.Count("EVALSHA"); n != 2 {
		t.Errorf("%d commands for two calls", n)
	}
}

package holdfast_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What a client took counts for the whole interval, whatever becomes of the end
// of the limiter.
func TestExpiryOfLimiterPerClient(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	a, b := open(t, s.URL()).RateLimiter(n), open(t, s.URL()).RateLimiter(n)
	if err := a.SetRate(t.Context(), holdfast.Rate{Permits: 1, Per: time.Hour, PerClient: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Object().Expire(t.Context(), 4*time.Second); err != nil {
		t.Fatal(err)
	}
	if ok, err := a.Allow(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if done, err := b.Object().Persist(t.Context()); !done || err != nil {
		t.Fatal(done, err)
	}
	time.Sleep(4500 * time.Millisecond)
	if ok, err := a.Allow(t.Context()); ok || err != nil {
		t.Errorf("a second permit of one per hour: %v, %v", ok, err)
	}
}

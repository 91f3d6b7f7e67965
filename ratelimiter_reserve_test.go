package holdfast_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Reserve says when permits may be used, instead of waiting; however many were
// promised before.
func TestReserveDoesNotWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := open(t, s.URL()).RateLimiter(name(t))
	if err := l.SetRate(t.Context(), holdfast.Rate{Permits: 1, Per: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for i := range 1100 {
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(10*time.Second, cancel)
		_, err := l.Reserve(ctx)
		stop.Stop()
		cancel()
		if err != nil {
			t.Fatalf("reservation %d waited for 10 s: %v", i, err)
		}
	}
}

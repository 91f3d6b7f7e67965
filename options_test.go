package holdfast_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An option that does not apply is refused by every call, not ignored by some.
func TestNoOptionIsIgnored(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	ctx := t.Context()
	opt := holdfast.LeaseTime(time.Second)
	sem, latch, limiter := c.Semaphore(name(t), opt), c.Latch(name(t), opt), c.RateLimiter(name(t), opt)
	for title, call := range map[string]func() error{
		"Semaphore.TrySet":    func() error { _, err := sem.TrySet(ctx, 5, 0); return err },
		"Semaphore.Release":   func() error { return sem.Release(ctx, 1) },
		"Latch.TrySet":        func() error { _, err := latch.TrySet(ctx, 1); return err },
		"Latch.CountDown":     func() error { _, err := latch.CountDown(ctx); return err },
		"RateLimiter.SetRate": func() error { return limiter.SetRate(ctx, holdfast.Rate{Permits: 1, Per: time.Second}) },
		"RateLimiter.Allow":   func() error { _, err := limiter.Allow(ctx); return err },
		"Election.Observe (Wait)": func() error {
			for _, err := range c.Election(name(t)).Observe(ctx, holdfast.Wait(time.Second)) {
				return err
			}
			return nil
		},
	} {
		if err := call(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: error %v", title, err)
		}
	}
}

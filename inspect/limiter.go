package inspect

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Limiter is the state of a rate limiter at one moment.
type Limiter struct {
	Name      string
	Permits   int           // per interval
	Per       time.Duration // the interval
	PerClient bool          // the rate applies to each client separately
	KeepAlive time.Duration // after this time an unused limiter is deleted; zero: never
	// Used is the number of permits that were taken in the last interval, including
	// those that are reserved for later. It is negative if it is unknown: for a rate per
	// client, and if too many permits have expired since the last use.
	Used int
}

// Limiters lists the rate limiters that have a rate, in no particular order. It scans the
// keys of all masters, as [Inspector.Locks] does, and returns the same errors. It changes
// nothing.
func (i *Inspector) Limiters(ctx context.Context, q Query) iter.Seq2[Limiter, error] {
	return list(ctx, i, q, "rate limiters", script.LimiterWalk(cmp.Or(q.Match, "*")), i.limiters(ctx))
}

// Limiter returns the state of one rate limiter. The error matches [ErrNotLimiter] if the
// key is not a rate limiter.
func (i *Inspector) Limiter(ctx context.Context, name string) (Limiter, error) {
	return one(ctx, i, name, "a rate limiter", ErrNotLimiter, i.limiters(ctx))
}

// limiters returns a function that reads the state of rate limiters.
func (i *Inspector) limiters(ctx context.Context) func(names []string) ([]Limiter, error) {
	call := func(name string) driver.Call { return script.LookAtLimiter(i.driver, name) }
	return looker(ctx, i.driver, call, func(name string, r driver.Reply) (Limiter, bool, error) {
		rate, used, ok, err := script.DecodeLimiter(r)
		return Limiter{name, rate.Permits, rate.Interval, rate.PerClient, rate.Keep, used}, ok, err
	})
}

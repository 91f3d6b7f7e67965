package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
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
	return func(yield func(Limiter, error) bool) {
		l := &listing{Inspector: i, ctx: ctx, seen: make(map[string]bool)}
		err := l.limits(q)
		if err == nil {
			err = l.walkAll([]script.Walk{script.LimiterWalk(cmp.Or(q.Match, "*"))}, func(names []string) error {
				return l.listLimiters(names, yield)
			})
		}
		if err = l.incomplete(err); err != nil && !l.ended {
			yield(Limiter{}, explain("list rate limiters", err))
		}
	}
}

// Limiter returns the state of one rate limiter. The error matches [ErrNotLimiter] if the
// key is not a rate limiter.
func (i *Inspector) Limiter(ctx context.Context, name string) (Limiter, error) {
	if err := i.ready(ctx); err != nil {
		return Limiter{}, explain("inspect a rate limiter", err)
	}
	if name == "" {
		return Limiter{}, explain("inspect a rate limiter", fmt.Errorf("%w: the name is empty", engine.ErrInvalid))
	}
	found, err := i.limiters(ctx, []string{name})
	if err == nil && len(found) == 0 {
		err = ErrNotLimiter
	}
	if err != nil {
		return Limiter{}, explain(fmt.Sprintf("inspect %.80q", name), err)
	}
	return found[0], nil
}

// listLimiters yields the rate limiters among some names.
func (l *listing) listLimiters(names []string, yield func(Limiter, error) bool) error {
	for _, names := range l.unseen(names) {
		found, err := l.limiters(l.ctx, names)
		if err != nil {
			return err
		}
		for _, limiter := range found {
			if !give(l, limiter, limiter.size(), yield) {
				return nil
			}
		}
	}
	return nil
}

// limiters reads the state of rate limiters on one node. It leaves out what is not one.
func (i *Inspector) limiters(ctx context.Context, names []string) (found []Limiter, err error) {
	for names := range slices.Chunk(names, batch) {
		calls := make([]driver.Call, len(names))
		for n, name := range names {
			calls[n] = script.LookAtLimiter(i.driver, name)
		}
		for n, r := range i.driver.DoMany(ctx, calls) {
			if r.Err != nil {
				return nil, r.Err
			}
			rate, used, ok, err := script.DecodeLimiter(r.Reply)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, Limiter{names[n], rate.Permits, rate.Interval, rate.PerClient, rate.Keep, used})
			}
		}
	}
	return found, nil
}

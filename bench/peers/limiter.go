package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/load"
	"github.com/redis/rueidis"
)

// bareTake is the floor of a rate limiter: the shortest script that still reads a rate,
// takes a permit, and logs it.
var bareTake = rueidis.NewLuaScript(`local rate = redis.call('hget', KEYS[1], 'rate')
	local free = tonumber(redis.call('get', KEYS[2]) or rate)
	if free < 1 then return 0 end
	redis.call('set', KEYS[2], free - 1); redis.call('zadd', KEYS[3], ARGV[1], ARGV[2]); return 1`)

// bareLimiter calls bareTake.
type bareLimiter struct {
	client rueidis.Client
	keys   []string
	calls  atomic.Int64
}

// newBareLimiter returns a limiter that has so many permits. They do not come back.
func newBareLimiter(b *bench, c rueidis.Client, name string, permits int) *bareLimiter {
	b.server.Do(b.scope, "HSET", name, "rate", strconv.Itoa(permits))
	return &bareLimiter{client: c, keys: []string{name, name + ":value", name + ":permits"}}
}

func (l *bareLimiter) Allow(ctx context.Context) (bool, error) {
	n := strconv.FormatInt(l.calls.Add(1), 10)
	return bareTake.Exec(ctx, l.client, l.keys, []string{n, n}).AsBool()
}

// An allower is a rate limiter.
type allower interface {
	Allow(context.Context) (bool, error)
}

// floodRate is the rate of the limiter that many goroutines ask at the same time. They get
// hardly any of the permits they ask for.
var floodRate = holdfast.Rate{Permits: 10, Per: time.Second}

// limiter measures, in turn with the floor, calls that get a permit, and then the calls of
// many goroutines that are refused.
func (b *bench) limiter(ctx context.Context, _ library, p point) (figures, error) {
	b.server.Do(b.scope, "FLUSHALL")
	c, err := holdfast.Open(ctx, "redis://"+b.server.Addr(), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	bare, err := openConn(b.server.Addr())
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	// As in practice, permits come back all the time.
	plenty, few := c.RateLimiter("plenty"), c.RateLimiter("few")
	if err := plenty.SetRate(ctx, holdfast.Rate{Permits: 1 << 30, Per: 20 * time.Millisecond}); err != nil {
		return nil, err
	}
	if err := few.SetRate(ctx, floodRate); err != nil {
		return nil, err
	}
	f := make(figures)
	if err := b.allowed(ctx, f, plenty, newBareLimiter(b, bare, "{bare}", 2_000_000_000)); err != nil {
		return nil, err
	}
	return f, b.refused(ctx, f, few, newBareLimiter(b, bare, "{none}", 0), p.n)
}

// allowed measures one goroutine that gets every permit.
func (b *bench) allowed(ctx context.Context, f figures, limiters ...allower) error {
	background := context.Background() // see one
	var times [2][]time.Duration
	for end := time.Now().Add(b.window); len(times[1]) == 0 || time.Now().Before(end) && ctx.Err() == nil; {
		for i, l := range limiters {
			for range 20 {
				start := time.Now()
				ok, err := l.Allow(background)
				times[i] = append(times[i], time.Since(start))
				if err != nil {
					return err
				}
				if !ok {
					return errors.New("a permit was refused, although there are plenty")
				}
			}
		}
	}
	f[allowTime], f[floorTime] = p50(times[0]), p50(times[1])
	f[allowRatio] = f[allowTime] / f[floorTime]
	return ctx.Err()
}

// refused measures n goroutines that ask for few permits, in ten turns each. Permits beyond
// the rate are violations.
func (b *bench) refused(ctx context.Context, f figures, ours, floor allower, n int) error {
	var sums [2]flood
	begin := time.Now()
	for range 10 {
		for i, l := range []allower{ours, floor} {
			some, err := floodOf(ctx, l, n, b.window/10)
			if err != nil {
				return err
			}
			sums[i].refused += some.refused
			sums[i].granted += some.granted
			sums[i].took += some.took
		}
	}
	f[refusalRate], f[evalRate] = sums[0].rate(), sums[1].rate()
	f[refusalRatio] = f[refusalRate] / f[evalRate]
	f[violations] = float64(max(0, sums[0].granted-permitsIn(floodRate, time.Since(begin))))
	return nil
}

// permitsIn returns how many permits a rate has in a time.
func permitsIn(r holdfast.Rate, d time.Duration) int64 {
	return int64(r.Permits) * int64(d/r.Per+1)
}

// A flood is what many goroutines got.
type flood struct {
	refused, granted int64
	took             time.Duration
}

func (f flood) rate() float64 { return float64(f.refused) / f.took.Seconds() }

// floodOf has n goroutines ask all the time.
func floodOf(ctx context.Context, l allower, n int, d time.Duration) (f flood, err error) {
	counts := make([]flood, n)
	begin := time.Now()
	err = load.Each(n, n, func(i int) error {
		var c flood // not in the slice: its neighbours change all the time, too
		for time.Since(begin) < d {
			switch ok, err := l.Allow(context.Background()); {
			case err != nil:
				return err
			case ok:
				c.granted++
			default:
				c.refused++
			}
		}
		counts[i] = c
		return nil
	})
	f.took = time.Since(begin)
	for _, c := range counts {
		f.refused += c.refused
		f.granted += c.granted
	}
	return f, errors.Join(err, ctx.Err())
}

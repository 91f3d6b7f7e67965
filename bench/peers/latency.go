package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// one measures pairs, in turn with pairs of the floor, so that both see the same noise.
func (b *bench) one(ctx context.Context, l library, _ point) (figures, error) {
	b.server.Do(b.scope, "FLUSHALL")
	var locks [2]lock
	for i, l := range []library{l, find(bareHash)} {
		c, err := l.open(ctx, b.server.Addr())
		if err != nil {
			return nil, err
		}
		defer c.close()
		locks[i] = c.lock(fmt.Sprint(lockName, ":", i))
	}
	// A context that cannot be cancelled: with it, rueidis has a faster path. One that
	// has a parent costs allocations.
	background := context.Background()
	var times [2][]time.Duration
	for end := time.Now().Add(b.window); len(times[1]) == 0 || time.Now().Before(end) && ctx.Err() == nil; {
		for i, l := range locks {
			some, err := pairs(background, l, 20)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], some...)
		}
	}
	f := figures{pairTime: p50(times[0]), floorTime: p50(times[1])}
	f[pairRatio] = f[pairTime] / f[floorTime]
	var failed error
	f[allocations] = testing.AllocsPerRun(200, func() {
		if _, err := pairs(background, locks[0], 1); err != nil {
			failed = err
		}
	}) - 1 // of pairs itself
	return f, failed
}

// pairs locks and releases n times and returns how long each pair took.
func pairs(ctx context.Context, l lock, n int) ([]time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		if err := l.acquire(ctx); err != nil {
			return nil, err
		}
		if err := l.release(ctx); err != nil {
			return nil, err
		}
		times[i] = time.Since(start)
	}
	return times, nil
}

// p50 returns the median in microseconds.
func p50(times []time.Duration) float64 { return float64(percentile(times, 50)) / 1e3 }

// percentile sorts the times, of which there is at least one.
func percentile(times []time.Duration, p int) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*p/100)]
}

// wakeUp measures, in turn with its floor, the time from the release of a lock in this
// process to the grant in another process. The floor is publish, receive and EVALSHA on
// a bare client.
func (b *bench) wakeUp(ctx context.Context, l library, _ point) (f figures, err error) {
	b.server.Do(b.scope, "FLUSHALL")
	err = within(func(s *scope) error {
		p, err := startWorker(s, "wake", job{Library: l.name, Addr: b.server.Addr()})
		if err != nil {
			return err
		}
		if _, err := line(ctx, p); err != nil {
			return err
		}
		c, err := l.open(ctx, b.server.Addr())
		if err != nil {
			return err
		}
		defer c.close()
		bare, err := openConn(b.server.Addr())
		if err != nil {
			return err
		}
		defer bare.Close()
		k := c.lock(lockName)
		// turn returns the time from the start of act to the answer of the other process.
		turn := func(what string, act func() error) (time.Duration, error) {
			p.Send(what)
			if err := pause(ctx, 2*time.Millisecond); err != nil { // until it waits
				return 0, err
			}
			start := now()
			if err := act(); err != nil {
				return 0, err
			}
			text, err := line(ctx, p)
			if err != nil {
				return 0, err
			}
			at, err := strconv.ParseInt(text, 10, 64)
			return time.Duration(at - start), err
		}
		var locks, floors []time.Duration
		for end := time.Now().Add(b.window); len(locks) < 5 || time.Now().Before(end); {
			if err := k.acquire(ctx); err != nil {
				return err
			}
			// A client that has just released a lock of Holdfast yields for a moment. This
			// measures one that has not.
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return err
			}
			d, err := turn("lock", func() error { return k.release(ctx) })
			if err != nil {
				return err
			}
			locks = append(locks, d)
			d, err = turn("floor", func() error {
				return bare.Do(ctx, bare.B().Publish().Channel(floorChannel).Message("0").Build()).Error()
			})
			if err != nil {
				return err
			}
			floors = append(floors, d)
		}
		f = figures{wakeTime: p50(locks), floorTime: p50(floors)}
		f[wakeRatio] = f[wakeTime] / f[floorTime]
		return nil
	})
	return f, err
}

// heldPairs is the number of pairs on another name.
const heldPairs = 2000

// heldLocks counts the requests that renew many held locks, and measures a pair on another
// name of the same client.
func (b *bench) heldLocks(ctx context.Context, l library, p point) (figures, error) {
	b.server.Do(b.scope, "FLUSHALL")
	c, err := l.open(ctx, b.server.Addr())
	if err != nil {
		return nil, err
	}
	defer c.close()
	other := c.lock("other")
	alone, err := pairs(context.Background(), other, heldPairs)
	if err != nil {
		return nil, err
	}
	locks := make([]lock, p.n)
	errs := make(chan error, 1)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(64, p.n) {
		wg.Go(func() {
			for i := range next {
				locks[i] = c.lock(fmt.Sprint("held:", i))
				if err := locks[i].acquire(ctx); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for i := range p.n {
		next <- i
	}
	close(next)
	wg.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	if err := pause(ctx, 2*b.window); err != nil {
		return nil, err
	}
	before, err := usageOf(b.server, l)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := pause(ctx, b.heldWindow); err != nil {
		return nil, err
	}
	after, err := usageOf(b.server, l)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(begin).Seconds()
	beside, err := pairs(context.Background(), other, heldPairs)
	if err != nil {
		return nil, err
	}
	return figures{
		requestRate: float64(after.requests-before.requests) / seconds,
		pingRate:    float64(after.pings-before.pings) / seconds,
		pairTime:    p50(beside), pairTimeAlone: p50(alone),
	}, nil
}

package main

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/load"
	"github.com/holdfast-go/holdfast/internal/redistest"
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
func p50(times []time.Duration) float64 { return float64(load.Percentile(times, 50)) / 1e3 }

// wakeUp measures, in turn with its floor, the time from the release of a lock in this
// process to the grant in another process. The floor is publish, receive and EVALSHA on
// a bare client.
func (b *bench) wakeUp(ctx context.Context, l library, _ point) (f figures, err error) {
	b.server.Do(b.scope, "FLUSHALL")
	err = within(func(s *scope) error {
		p := redistest.Worker(s, "wake", libraryVariable+"="+l.name, addrVariable+"="+b.server.Addr())
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
			if err := load.Sleep(ctx, 2*time.Millisecond); err != nil { // until it waits
				return 0, err
			}
			start := redistest.Now()
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
			if err := load.Sleep(ctx, 5*time.Millisecond); err != nil {
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
	err = load.Each(p.n, 64, func(i int) error { return c.lock(fmt.Sprint("held:", i)).acquire(ctx) })
	if err != nil {
		return nil, err
	}
	if err := load.Sleep(ctx, 2*b.window); err != nil {
		return nil, err
	}
	u, seconds, err := usageDuring(b.server, l, func() error { return load.Sleep(ctx, b.heldWindow) })
	if err != nil {
		return nil, err
	}
	beside, err := pairs(context.Background(), other, heldPairs)
	if err != nil {
		return nil, err
	}
	return figures{
		requestRate: float64(u.Requests) / seconds, pingRate: float64(u.Pings) / seconds,
		pairTime: p50(beside), pairTimeAlone: p50(alone),
	}, nil
}

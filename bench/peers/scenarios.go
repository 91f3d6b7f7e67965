package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A scenario measures some libraries at some points.
type scenario struct {
	name    string
	title   string
	locks   []string
	points  func(*bench) []point
	reps    int // 0: as often as the flag says
	columns []column
	run     func(*bench, context.Context, library, point) (figures, error)
}

// A point is a number of clients and a length of the critical section.
type point struct {
	n    int
	hold time.Duration
}

var (
	waiting  = []string{sketched, mutex, wakeAll, fairMutex, redsyncs, redislocks, rueidisl}
	contends = []string{sketched, mutex, noHandoffs, wakeAll, fairMutex, redsyncs, redislocks, rueidisl}
	crowded  = []column{
		{figure: pairRate},
		{figure: handoffRate},
		{figure: handoffRate, over: sketched, digits: 2},
		{figure: handoffRate, over: rueidisl, digits: 2},
		{figure: requestsEach, digits: 2},
		{figure: commandsEach, digits: 1},
		{figure: cpuEach},
		{figure: jainIndex, digits: 3},
		{figure: longestWait, digits: 1},
		{figure: longestTurns, digits: 1},
		{figure: violations},
	}
)

var scenarios = []scenario{
	{
		name: "one", title: "One goroutine, a name that no other client wants",
		locks: []string{bareHash, bareSet, sketched, mutex, noHandoffs, wakeAll, fairMutex, redsyncs, redislocks, rueidisl},
		run:   (*bench).one,
		columns: []column{
			{figure: pairTime, digits: 1}, {figure: floorTime, digits: 1}, {figure: pairRatio, digits: 2}, {figure: allocations},
		},
	},
	{
		name: "names", title: "Many goroutines of one process, a name each",
		locks:  []string{bareHash, bareSet, mutex, fairMutex, redsyncs, redislocks, rueidisl},
		points: func(b *bench) []point { return []point{{n: b.names}} },
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, load{library: l, processes: 1, clients: 1, goroutines: p.n, ownNames: true})
		},
		columns: []column{{figure: pairRate}, {figure: pairRate, over: bareHash, digits: 2}, {figure: jainIndex, digits: 3}, {figure: violations}},
	},
	{
		name: "hot", title: "One name, many goroutines of one process",
		locks:  contends,
		points: func(b *bench) []point { return []point{{n: b.hot}} },
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, load{library: l, processes: 1, clients: 1, goroutines: p.n})
		},
		columns: []column{
			{figure: pairRate},
			{figure: handoffRate},
			{figure: handoffRate, over: rueidisl, digits: 2},
			{figure: requestsEach, digits: 2},
			{figure: jainIndex, digits: 3},
			{figure: longestWait, digits: 1},
			{figure: violations},
		},
	},
	{
		name: "processes", title: "One name, several processes of four goroutines",
		locks:  contends,
		points: func(b *bench) []point { return []point{{n: b.processes}} },
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, load{library: l, processes: p.n, clients: p.n, goroutines: 4})
		},
		columns: []column{
			{figure: pairRate},
			{figure: handoffRate},
			{figure: handoffRate, over: rueidisl, digits: 2},
			{figure: crossingRate},
			{figure: crossingRate, over: rueidisl, digits: 2},
			{figure: requestsEach, digits: 2},
			{figure: jainIndex, digits: 3},
			{figure: longestWait, digits: 1},
			{figure: violations},
		},
	},
	{
		name: "crowd", title: "One name, many clients of one goroutine",
		locks: waiting,
		points: func(b *bench) (list []point) {
			for _, hold := range []time.Duration{0, 2 * time.Millisecond} {
				for _, n := range b.crowd {
					list = append(list, point{n, hold})
				}
			}
			return list
		},
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, load{library: l, processes: maxProcesses, clients: p.n, goroutines: 1, hold: p.hold})
		},
		columns: crowded,
	},
	{
		name: "crowd-replica", title: "The same on a server with one replica",
		locks: []string{mutex},
		points: func(b *bench) []point {
			return slices.Compact([]point{{n: b.crowd[0]}, {n: b.crowd[min(2, len(b.crowd)-1)]}})
		},
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, load{library: l, server: b.replicated(), processes: maxProcesses, clients: p.n, goroutines: 1})
		},
		columns: slices.DeleteFunc(slices.Clone(crowded), func(c column) bool { return c.over != "" }),
	},
	{
		name: "wakeup", title: "From the release in one process to the grant in another",
		locks: waiting,
		run:   (*bench).wakeUp,
		columns: []column{
			{figure: wakeTime}, {figure: floorTime}, {figure: wakeRatio, digits: 2},
		},
	},
	{
		name: "held", title: "Many held locks in one client",
		locks: []string{mutex, rueidisl}, reps: 1,
		points: func(b *bench) []point { return []point{{n: b.held}} },
		run:    (*bench).heldLocks,
		columns: []column{
			{figure: requestRate, digits: 1}, {figure: pingRate, digits: 1}, {figure: pairTime, digits: 1}, {figure: pairTimeAlone, digits: 1},
		},
	},
	{
		name: "idle", title: "Many clients that wait for a lock that is held",
		locks: []string{mutex, wakeAll, fairMutex, redsyncs, redislocks, rueidisl}, reps: 1,
		points: func(b *bench) []point { return []point{{n: b.idle}} },
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			window := b.idleWindow
			if !l.ours {
				window /= 4 // they ask all the time
			}
			return b.measure(ctx, load{library: l, processes: maxProcesses, clients: p.n, goroutines: 1, idle: true, window: window})
		},
		columns: []column{{figure: requestRate, digits: 1}, {figure: pingRate, digits: 1}, {figure: waitingRate, digits: 1}},
	},
}

const maxProcesses = 8

// A bench is one run of the program.
type bench struct {
	scope  *scope
	server *redistest.Server

	window     time.Duration // of a measurement
	idleWindow time.Duration
	heldWindow time.Duration
	await      bool // a measurement lasts until there was a hand-off

	names, hot, processes, held, idle int
	crowd                             []int

	master *redistest.Server // of replicated
}

// newBench returns the default settings and starts a server.
func newBench(s *scope, window time.Duration) *bench {
	return &bench{
		scope: s, server: redistest.StartWith(s),
		window: window, idleWindow: 20 * window, heldWindow: 20 * window, // Holdfast renews every ten seconds
		names: 512, hot: 16, processes: maxProcesses, held: 10_000, idle: 1_000, crowd: []int{10, 50, 200, 500},
	}
}

// replicated returns the master of a server with one replica.
func (b *bench) replicated() *redistest.Server {
	if b.master == nil {
		b.master = redistest.StartReplicated(b.scope, 1).Master()
	}
	return b.master
}

// measure adds to a load what is the same for all.
func (b *bench) measure(ctx context.Context, l load) (figures, error) {
	if l.server == nil {
		l.server = b.server
	}
	l.settle = b.window * 3 / 10
	if l.window == 0 {
		l.window = b.window
	}
	if l.idle {
		l.settle = b.window * 2
	}
	if b.await && !l.ownNames && (l.library.ours || l.library.name == sketched) {
		l.least = 1
	}
	return l.measure(ctx)
}

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
func p50(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds()) / 1e3
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

package main

import (
	"context"
	"slices"
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

// A point is a number of clients or goroutines and a length of the critical section.
type point struct {
	n    int
	hold time.Duration
}

var (
	waiting  = []string{sketched, leased, mutex, wakeAll, fairMutex, redsyncs, redislocks, rueidisl}
	contends = []string{sketched, leased, mutex, noHandoffs, wakeAll, fairMutex, redsyncs, redislocks, rueidisl}
	crowded  = []column{
		{figure: pairRate},
		{figure: handoffRate},
		{figure: handoffRate, over: sketched, digits: 2},
		{figure: handoffRate, over: leased, digits: 2},
		{figure: handoffRate, over: rueidisl, digits: 2},
		{figure: requestsEach, digits: 2},
		{figure: commandsEach, digits: 1},
		{figure: cpuEach},
		{figure: cpuEach, over: leased, digits: 2},
		{figure: jainIndex, digits: 3},
		{figure: longestWait, digits: 1},
		{figure: longestTurns, digits: 1},
		{figure: violations},
	}
	alone = []column{
		{figure: pairTime, digits: 1}, {figure: floorTime, digits: 1}, {figure: pairRatio, digits: 2}, {figure: allocations},
	}
)

var scenarios = []scenario{
	{
		name: "one", title: "One goroutine, a name that no other client wants",
		locks: []string{bareHash, bareSet, sketched, leased, mutex, noHandoffs, wakeAll, fairMutex, redsyncs, redislocks, rueidisl},
		run:   (*bench).one, columns: alone,
	},
	{
		name: "names", title: "Many goroutines of one process, a name each",
		locks:  []string{bareHash, bareSet, mutex, fairMutex, redsyncs, redislocks, rueidisl},
		points: func(b *bench) []point { return []point{{n: b.names}} },
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, competition{library: l, processes: 1, clients: 1, goroutines: p.n, ownNames: true})
		},
		columns: []column{
			{figure: pairRate},
			{figure: pairRate, over: bareHash, digits: 2},
			{figure: pairRate, over: redsyncs, digits: 2},
			{figure: jainIndex, digits: 3},
			{figure: violations},
		},
	},
	{
		name: "reader", title: "One goroutine that reads under a lock that no other client wants",
		locks: []string{readLock},
		run:   (*bench).one, columns: alone,
	},
	{
		name: "readers", title: "Many goroutines of one process that read under one lock; those of the floor have a name each",
		locks:  []string{bareHash, readLock},
		points: func(b *bench) []point { return []point{{n: b.readers}} },
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, competition{library: l, processes: 1, clients: 1, goroutines: p.n, ownNames: l.floor})
		},
		columns: []column{
			{figure: pairRate}, {figure: pairRate, over: bareHash, digits: 2}, {figure: requestRate}, {figure: jainIndex, digits: 3}, {figure: violations},
		},
	},
	{
		name: "writer", title: "One writer beside readers in four processes; the section is that of the readers",
		locks: []string{writeLock, writerFirst},
		points: func(b *bench) []point {
			return []point{{n: b.readers}, {b.readers, time.Millisecond}}
		},
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, competition{
				library: find(readLock), writer: &l, processes: 4, clients: 4, goroutines: p.n / 4, hold: p.hold, window: b.writerWindow,
			})
		},
		columns: []column{
			{figure: pairRate},
			{figure: writes},
			{figure: writerP50, digits: 1},
			{figure: writerP99, digits: 1},
			{figure: writerLongest, digits: 1},
			{figure: violations},
		},
	},
	{
		name: "multi", title: "One goroutine, eight mutexes together that no other client wants",
		locks: []string{multiOf8},
		run:   (*bench).one, columns: alone,
	},
	{
		name: "limiter", title: "Permits of a rate limiter: one goroutine that gets them, and many that are refused",
		locks:  []string{rateLimiter},
		points: func(b *bench) []point { return []point{{n: b.flood}} },
		run:    (*bench).limiter,
		columns: []column{
			{figure: allowTime, digits: 1},
			{figure: floorTime, digits: 1},
			{figure: allowRatio, digits: 2},
			{figure: refusalRate},
			{figure: evalRate},
			{figure: refusalRatio, digits: 2},
			{figure: violations},
		},
	},
	{
		name: "hot", title: "One name, many goroutines of one process",
		locks:  contends,
		points: func(b *bench) []point { return []point{{n: b.hot}} },
		run: func(b *bench, ctx context.Context, l library, p point) (figures, error) {
			return b.measure(ctx, competition{library: l, processes: 1, clients: 1, goroutines: p.n})
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
			return b.measure(ctx, competition{library: l, processes: p.n, clients: p.n, goroutines: 4})
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
			return b.measure(ctx, competition{library: l, processes: maxProcesses, clients: p.n, goroutines: 1, hold: p.hold})
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
			return b.measure(ctx, competition{library: l, server: b.replicated(), processes: maxProcesses, clients: p.n, goroutines: 1})
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
			return b.measure(ctx, competition{library: l, processes: maxProcesses, clients: p.n, goroutines: 1, idle: true, window: window})
		},
		columns: []column{{figure: requestRate, digits: 1}, {figure: pingRate, digits: 1}, {figure: waitingRate, digits: 1}},
	},
}

const maxProcesses = 8

// A bench is one run of the program.
type bench struct {
	scope  *scope
	server *redistest.Server

	window       time.Duration // of a measurement
	idleWindow   time.Duration
	heldWindow   time.Duration
	writerWindow time.Duration
	await        bool // a measurement lasts until there was a hand-off, or a write

	names, readers, flood, hot, processes, held, idle int
	crowd                                             []int

	master *redistest.Server // of replicated
}

// newBench returns the default settings and starts a server.
func newBench(s *scope, window time.Duration) *bench {
	return &bench{
		scope: s, server: redistest.StartWith(s),
		window: window, idleWindow: 20 * window, heldWindow: 20 * window, // Holdfast renews every ten seconds
		writerWindow: 5 * window, // for a p99 of about two hundred writes
		names:        512, readers: 64, flood: 64, hot: 16, processes: maxProcesses, held: 10_000, idle: 1_000, crowd: []int{10, 50, 200, 500},
	}
}

// replicated returns the master of a server with one replica.
func (b *bench) replicated() *redistest.Server {
	if b.master == nil {
		b.master = redistest.StartReplicated(b.scope, 1).Master()
	}
	return b.master
}

// measure adds to a competition what is the same for all.
func (b *bench) measure(ctx context.Context, c competition) (figures, error) {
	if c.server == nil {
		c.server = b.server
	}
	c.settle = b.window * 3 / 10
	if c.window == 0 {
		c.window = b.window
	}
	if c.idle {
		c.settle = b.window * 2
	}
	if b.await && c.progresses() {
		c.least = 1
	}
	return c.measure(ctx)
}

// progresses reports whether there are hand-offs, or writes, sooner or later.
func (c competition) progresses() bool {
	switch {
	case c.ownNames || c.idle:
		return false
	case c.library.reads: // they can keep another writer waiting
		return c.writer != nil && c.writer.name == writerFirst
	default:
		return c.library.ours || c.library.name == sketched || c.library.name == leased
	}
}

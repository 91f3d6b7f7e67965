package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/section"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// A benchJob is the work of one process.
type benchJob struct {
	Kind       benchKind
	Names      []string
	Clients    int // they share nothing
	Goroutines int // of each client
	Before     int // goroutines of the processes before this one
	Hold, For  time.Duration
}

// A benchResult is the measurement of one process or the sum of several.
type benchResult struct {
	Shares         []int64 // acquisitions of each goroutine
	Handoffs       int64   // acquisitions by a goroutine other than the previous holder
	PassedHandoffs int64   // hand-offs without the server
	Calls          benchCalls
	Took           time.Duration // of the slowest process
	Longest        time.Duration // wait, also if the end has cut it off
	Warnings       []string      // of the clients, without duplicates

	// Granted holds the durations of the acquisitions that the server has granted, in
	// nanoseconds. Passed holds those of hand-offs without the server.
	Granted, Passed *hdrhistogram.Snapshot
}

// A benchLoad is a job with its clients.
type benchLoad struct {
	benchJob
	opened  []*holdfast.Client // closed with the clients
	clients []*holdfast.Client
	names   []*benchName // of the first client, then of the next one
	counter benchCounter
	log     benchLog
}

// prepare opens the clients of the job and warms them up, so that scripts are loaded
// and channels subscribed.
func (j benchJob) prepare(ctx context.Context, t *target, sections []section.Section) (*benchLoad, error) {
	l := &benchLoad{benchJob: j, opened: make([]*holdfast.Client, j.Clients)}
	if err := l.open(ctx, t); err != nil {
		l.close()
		return nil, err
	}
	owners := make([]atomic.Pointer[string], len(j.Names))
	for _, c := range l.clients {
		for i, n := range j.Names {
			l.names = append(l.names, &benchName{take: benchKinds[j.Kind].take(c, n), shared: benchKinds[j.Kind].shared, section: &sections[i], owner: &owners[i]})
		}
	}
	if err := l.warmUp(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// open opens the clients, some at a time.
func (l *benchLoad) open(ctx context.Context, t *target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler) // the warnings of the connect were printed before
	errs := make([]error, l.Clients)
	slots := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range l.opened {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if l.opened[i], errs[i] = t.open(ctx, holdfast.Options{Logger: quiet}); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err // the others were cancelled
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, c := range l.opened {
		counted, err := holdfast.New(benchDriver{c.Driver(), &l.counter}, &holdfast.Options{RetryTimeout: 3 * time.Second, Logger: slog.New(&l.log)})
		if err != nil {
			return err
		}
		l.clients = append(l.clients, counted)
	}
	return nil
}

func (l *benchLoad) close() {
	var wg sync.WaitGroup
	for _, c := range l.clients {
		wg.Go(func() { _ = c.Close() })
	}
	wg.Wait()
	for _, c := range l.opened {
		if c != nil {
			wg.Go(func() { _ = c.Close() })
		}
	}
	wg.Wait()
}

// name returns the lock of a goroutine in a round.
func (l *benchLoad) name(goroutine, round int) *benchName {
	client := goroutine / l.Goroutines
	return l.names[client*len(l.Names)+(goroutine+round)%len(l.Names)]
}

// visitor returns the number of a goroutine, over all processes.
func (l *benchLoad) visitor(goroutine int) int64 { return int64(l.Before + goroutine + 1) }

// warmUp takes a lock once in each goroutine, or until half of the time is over.
func (l *benchLoad) warmUp(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.For/2)
	defer cancel()
	m := newBenchMeter(l.Clients*l.Goroutines, new(atomic.Int64))
	var wg sync.WaitGroup
	var first error
	var failed sync.Once
	for g := range m.tallies {
		wg.Go(func() {
			if err := l.name(g, 0).visit(limited, m, g, l.visitor(g), 0, 0); err != nil {
				failed.Do(func() { first = err })
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(ctx.Err(), first)
}

// run acquires and releases locks until the time is over or ctx is done. It counts
// those that the server grants in running.
func (l *benchLoad) run(ctx context.Context, running *atomic.Int64) (benchResult, error) {
	m := newBenchMeter(l.Clients*l.Goroutines, running)
	var r benchResult
	before := l.counter.calls()
	err := m.run(ctx, l.For, func() { r.Calls = l.counter.calls().minus(before) }, func(ctx context.Context, goroutine, round int) error {
		return l.name(goroutine, round).visit(ctx, m, goroutine, l.visitor(goroutine), round, l.Hold)
	})
	r.Took, r.Warnings = time.Duration(m.took.Load()), l.log.list()
	for _, t := range m.tallies {
		r.Shares = append(r.Shares, t.locks)
		r.Handoffs += t.handoffs
		r.PassedHandoffs += t.passedHandoffs
		r.Longest = max(r.Longest, t.longest)
	}
	granted, passed := m.latencies()
	r.Granted, r.Passed = granted.Export(), passed.Export()
	return r, err
}

// add adds the result of another process.
func (r *benchResult) add(s benchResult) {
	r.Shares = append(r.Shares, s.Shares...)
	r.Handoffs += s.Handoffs
	r.PassedHandoffs += s.PassedHandoffs
	r.Calls = r.Calls.plus(s.Calls)
	r.Took = max(r.Took, s.Took)
	r.Longest = max(r.Longest, s.Longest)
	for _, w := range s.Warnings {
		if !slices.Contains(r.Warnings, w) {
			r.Warnings = append(r.Warnings, w)
		}
	}
	r.Granted, r.Passed = mergeLatencies(r.Granted, s.Granted), mergeLatencies(r.Passed, s.Passed)
}

func mergeLatencies(snapshots ...*hdrhistogram.Snapshot) *hdrhistogram.Snapshot {
	sum := newLatencies()
	for _, s := range snapshots {
		if s != nil {
			sum.Merge(hdrhistogram.Import(s))
		}
	}
	return sum.Export()
}

// errNotExclusive returns the error for an acquisition while another owner has a valid
// lease.
func errNotExclusive(name string) error {
	return hint(fmt.Errorf("two owners held the lock %s at the same time", term.Quote(name, 60)),
		"If the server has not lost or deleted it, this is a bug: please report it.")
}

// A benchTake acquires a lock in the given round.
type benchTake func(ctx context.Context, round int) (*holdfast.Lease, error)

// A benchName is a lock of one client.
type benchName struct {
	take    benchTake
	shared  func(round int) bool // nil: the lock is never shared
	section *section.Section
	owner   *atomic.Pointer[string] // the last one in this process
}

// visit acquires the lock, holds it, and releases it. It fails if another visitor gets
// the lock while the lease is valid. It returns nil if ctx is done before the lock is
// acquired.
func (n *benchName) visit(ctx context.Context, m *benchMeter, goroutine int, visitor int64, round int, hold time.Duration) error {
	asked := time.Now()
	lease, err := n.take(ctx, round)
	if err != nil {
		if ctx.Err() != nil {
			m.gaveUp(goroutine, asked)
			return nil
		}
		return err
	}
	var handoff bool
	var leave func() bool
	if n.shared != nil && n.shared(round) {
		leave = n.section.EnterShared()
	} else {
		handoff, leave = n.section.Enter(visitor)
	}
	owner := lease.Owner()
	before := n.owner.Swap(&owner)
	passed := before != nil && *before == owner // an owner is new for every grant of the server
	if m.record(goroutine, asked, passed) && handoff {
		m.tallies[goroutine].handoffs++
		if passed {
			m.tallies[goroutine].passedHandoffs++
		}
	}
	if hold > 0 {
		sleep(ctx, hold)
	}
	violated := leave != nil && leave() && lease.Valid()
	err = lease.Release(context.WithoutCancel(ctx))
	if violated {
		return errNotExclusive(lease.Name())
	}
	return err
}

// A benchKind is the value of --kind.
type benchKind string

// benchKinds maps each kind of lock to how it is acquired.
var benchKinds = map[benchKind]struct {
	shared    func(round int) bool // several owners may hold it, so there are no hand-offs
	extraKeys []string             // prefixes of its other keys
	take      func(c *holdfast.Client, name string) benchTake
}{
	"mutex":        {nil, nil, benchLocker((*holdfast.Client).Mutex)},
	"fair mutex":   {nil, []string{"redisson_lock_queue", "redisson_lock_timeout", "holdfast:waiting"}, benchLocker((*holdfast.Client).FairMutex)},
	"fenced mutex": {nil, []string{"redisson_lock_token"}, benchLocker((*holdfast.Client).FencedMutex)},
	"read/write mutex": {benchReads, []string{"holdfast:writers"}, func(c *holdfast.Client, n string) benchTake {
		m := c.RWMutex(n)
		return func(ctx context.Context, round int) (*holdfast.Lease, error) {
			if benchReads(round) {
				return m.RLock(ctx)
			}
			return m.Lock(ctx)
		}
	}},
}

// benchReads reports whether the lock is acquired for reading in a round.
func benchReads(round int) bool { return round%10 != 0 }

// benchKindNames lists the values of --kind in the order of the help.
var benchKindNames = []string{"mutex", "fair mutex", "fenced mutex", "read/write mutex"}

func benchLocker[L holdfast.Locker](lock func(*holdfast.Client, string, ...holdfast.LockOption) L) func(*holdfast.Client, string) benchTake {
	return func(c *holdfast.Client, name string) benchTake {
		l := lock(c, name)
		return func(ctx context.Context, _ int) (*holdfast.Lease, error) { return l.Lock(ctx) }
	}
}

// Set sets the kind from a flag.
func (k *benchKind) Set(text string) error {
	if _, ok := benchKinds[benchKind(text)]; !ok {
		return fmt.Errorf("it must be %s", strings.Join(benchKindNames, ", "))
	}
	*k = benchKind(text)
	return nil
}

func (k *benchKind) String() string { return string(*k) }

// Type returns the placeholder of the value in --help.
func (k *benchKind) Type() string { return strings.Join(benchKindNames, "|") }

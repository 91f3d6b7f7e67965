package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// A benchJob is the work of one process.
type benchJob struct {
	Kind       benchKind
	Names      []string
	Goroutines int
	For        time.Duration
}

// A benchResult is the measurement of one process or the sum of several.
type benchResult struct {
	Locks    int64         // acquisitions
	Handoffs int64         // acquisitions by a goroutine other than the previous holder
	Passed   int64         // hand-offs without the server
	Calls    benchCalls    // sent to the server
	Took     time.Duration // of the slowest process

	// Latency holds the duration of the acquisitions in nanoseconds.
	Latency *hdrhistogram.Snapshot
}

// run acquires and releases locks until the time is over or ctx is done. It counts
// them in running.
func (j benchJob) run(ctx context.Context, d driver.Driver, running *atomic.Int64) (benchResult, error) {
	counted := &benchDriver{Driver: d}
	client, err := holdfast.New(counted, holdfast.Options{RetryTimeout: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return benchResult{}, err
	}
	defer client.Close()
	names := make([]*benchName, len(j.Names))
	for i, n := range j.Names {
		names[i] = &benchName{take: benchKinds[j.Kind].take(client, n)}
	}
	began := time.Now()
	total, err := benchAll(ctx, j.For, j.Goroutines, func(ctx context.Context, goroutine, round int) (time.Duration, error) {
		took, err := names[(goroutine+round)%len(names)].once(ctx, goroutine+1, round)
		if err == nil {
			running.Add(1)
		}
		return took, err
	})
	r := benchResult{Locks: total.TotalCount(), Calls: counted.calls(), Took: time.Since(began), Latency: total.Export()}
	for _, n := range names {
		r.Handoffs += n.handoffs.Load()
		r.Passed += n.passed.Load()
	}
	return r, err
}

// A benchTake acquires a lock in the given round.
type benchTake func(ctx context.Context, round int) (*holdfast.Lease, error)

// A benchName is a lock with its last goroutine and owner.
type benchName struct {
	take             benchTake
	goroutine        atomic.Int64
	owner            atomic.Pointer[string]
	handoffs, passed atomic.Int64
}

// once acquires and releases the lock. It returns the duration of the acquisition.
func (n *benchName) once(ctx context.Context, goroutine, round int) (time.Duration, error) {
	began := time.Now()
	lease, err := n.take(ctx, round)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	owner := lease.Owner()
	before := n.owner.Swap(&owner)
	if n.goroutine.Swap(int64(goroutine)) != int64(goroutine) {
		n.handoffs.Add(1)
		if before != nil && *before == owner { // same owner: handed over without the server
			n.passed.Add(1)
		}
	}
	return took, lease.Release(context.WithoutCancel(ctx))
}

// benchAll calls do repeatedly in several goroutines until d is over, and at least
// once. It returns the durations. The first error ends all goroutines; an error
// because ctx is done is not returned.
func benchAll(ctx context.Context, d time.Duration, goroutines int, do func(ctx context.Context, goroutine, round int) (time.Duration, error)) (*hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	once := make(chan struct{})
	first := sync.OnceFunc(func() { close(once) })
	defer time.AfterFunc(d, func() {
		select {
		case <-once:
		case <-ctx.Done():
		}
		cancel()
	}).Stop()
	total, errs := newLatencies(), make([]error, goroutines)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range goroutines {
		wg.Go(func() {
			h := newLatencies()
			for round := 0; ctx.Err() == nil; round++ {
				took, err := do(ctx, g, round)
				if err != nil {
					if ctx.Err() == nil {
						errs[g] = err
						cancel()
					}
					break
				}
				first()
				_ = h.RecordValue(min(max(took.Nanoseconds(), 100), h.HighestTrackableValue()))
			}
			mu.Lock()
			defer mu.Unlock()
			total.Merge(h)
		})
	}
	wg.Wait()
	return total, errors.Join(errs...)
}

func newLatencies() *hdrhistogram.Histogram { return hdrhistogram.New(100, int64(time.Minute), 2) }

// A benchKind is the value of --kind.
type benchKind string

// benchKinds maps each kind of lock to how it is acquired.
var benchKinds = map[benchKind]struct {
	shared    bool     // several owners may hold it, so there are no hand-offs
	extraKeys []string // prefixes of its other keys
	take      func(c *holdfast.Client, name string) benchTake
}{
	"mutex":  {false, nil, benchLocker((*holdfast.Client).Mutex)},
	"fair":   {false, []string{"redisson_lock_queue", "redisson_lock_timeout", "holdfast:waiting"}, benchLocker((*holdfast.Client).FairMutex)},
	"fenced": {false, []string{"redisson_lock_token"}, benchLocker((*holdfast.Client).FencedMutex)},
	"rw": {true, []string{"holdfast:writers"}, func(c *holdfast.Client, n string) benchTake {
		m := c.RWMutex(n)
		return func(ctx context.Context, round int) (*holdfast.Lease, error) {
			if round%10 == 0 {
				return m.Lock(ctx)
			}
			return m.RLock(ctx)
		}
	}},
}

// benchKindNames lists the values of --kind in the order of the help.
var benchKindNames = []string{"mutex", "fair", "fenced", "rw"}

func benchLocker[L holdfast.Locker](lock func(*holdfast.Client, string, ...holdfast.Option) L) func(*holdfast.Client, string) benchTake {
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

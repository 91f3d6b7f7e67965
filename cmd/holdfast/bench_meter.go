package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A benchMeter runs a function in several goroutines for some time and measures how
// long each call waits.
type benchMeter struct {
	tallies []benchTally
	shards  [64]benchShard
	began   time.Time
	took    atomic.Int64  // length of the measurement; 0 until its end
	first   chan struct{} // closed by the first record
	once    sync.Once
	running *atomic.Int64 // number of records that the server granted, for the progress
}

// A benchTally has the counts of one goroutine, which only that goroutine changes.
type benchTally struct {
	locks, handoffs, passedHandoffs int64

	longest time.Duration // wait
}

// A benchShard has the latencies of some of the goroutines.
type benchShard struct {
	mu              sync.Mutex
	granted, passed *hdrhistogram.Histogram
}

func newBenchMeter(goroutines int, running *atomic.Int64) *benchMeter {
	return &benchMeter{tallies: make([]benchTally, goroutines), first: make(chan struct{}), running: running}
}

// run calls do repeatedly in each goroutine until the limit is over, and until there
// is a record. Then it calls end, cancels the context of do, and waits for all
// goroutines. It returns the first error, which ends all goroutines.
func (m *benchMeter) run(ctx context.Context, limit time.Duration, end func(), do func(ctx context.Context, goroutine, round int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.began = time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		sleep(ctx, limit)
		select {
		case <-m.first:
		case <-ctx.Done():
		}
		m.took.Store(int64(time.Since(m.began)))
		end()
	})
	var first error
	var failed sync.Once
	for g := range m.tallies {
		wg.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				if err := do(ctx, g, round); err != nil {
					failed.Do(func() { first = err })
					cancel()
				}
			}
		})
	}
	wg.Wait()
	return first
}

// record records that a goroutine has what it asked for: from the server, or passed on
// by another goroutine. It reports whether this counts. After the end of the
// measurement, only the wait until the end does.
func (m *benchMeter) record(goroutine int, asked time.Time, passed bool) bool {
	waited := time.Since(asked)
	if m.took.Load() != 0 {
		m.gaveUp(goroutine, asked)
		return false
	}
	t := &m.tallies[goroutine]
	t.locks++
	t.longest = max(t.longest, waited)
	s := &m.shards[goroutine%len(m.shards)]
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.granted
	if passed {
		h = &s.passed
	} else {
		m.running.Add(1)
	}
	if *h == nil {
		*h = newLatencies()
	}
	_ = (*h).RecordValue(min(max(waited.Nanoseconds(), 100), (*h).HighestTrackableValue()))
	m.once.Do(func() { close(m.first) })
	return true
}

// gaveUp records a wait that the end of the measurement has cut off.
func (m *benchMeter) gaveUp(goroutine int, asked time.Time) {
	t := &m.tallies[goroutine]
	t.longest = max(t.longest, m.began.Add(time.Duration(m.took.Load())).Sub(asked))
}

// latencies returns the latencies of all goroutines in nanoseconds.
func (m *benchMeter) latencies() (granted, passed *hdrhistogram.Histogram) {
	granted, passed = newLatencies(), newLatencies()
	for i := range m.shards {
		if h := m.shards[i].granted; h != nil {
			granted.Merge(h)
		}
		if h := m.shards[i].passed; h != nil {
			passed.Merge(h)
		}
	}
	return granted, passed
}

func newLatencies() *hdrhistogram.Histogram { return hdrhistogram.New(100, int64(time.Minute), 2) }

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

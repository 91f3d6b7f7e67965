package load

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoJob is returned by Serve if [Start] has not started this process.
var ErrNoJob = errors.New("load: there is no job on standard input")

// sharing says whether processes share memory. Tests change it.
var sharing = Sharing

// Serve runs the job that another process sends with [Start].
func Serve(ctx context.Context, in io.Reader, out io.Writer, open Open) error {
	return serve(ctx, in, out, open, nil)
}

// serve runs a job. If m is nil, it is inherited or mirrored.
func serve(ctx context.Context, in io.Reader, out io.Writer, open Open, m *memory) (err error) {
	var s setup
	orders, messages := json.NewDecoder(in), json.NewEncoder(out)
	if orders.Decode(&s) != nil {
		return ErrNoJob
	}
	mirrored := m == nil && !sharing
	if mirrored {
		m = newMemory(s.Size)
	} else if m == nil {
		if m, err = mapMemory(os.NewFile(memoryFile, "memory"), s.Size); err != nil {
			return err
		}
	}
	crew, err := open(ctx, s.Job, m.traffic(s.Job.Process))
	if err != nil {
		return err
	}
	defer crew.Close()
	_ = messages.Encode(message{})
	var o order
	if orders.Decode(&o) != nil {
		return messages.Encode(message{Report: new(Report)}) // not needed any more
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := worker{Job: s.Job, memory: m, begun: make(chan struct{})}
	go func() {
		defer stop()
		begun := sync.OnceFunc(func() { close(w.begun) })
		for orders.Decode(&o) == nil { // until the parent closes the input
			if mirrored {
				m.setWindow(o)
			}
			begun()
		}
	}()
	var mirroring sync.WaitGroup
	mirroring.Go(func() {
		for mirrored && Sleep(ctx, 50*time.Millisecond) == nil {
			_ = messages.Encode(message{Counters: m.counters(s.Job)})
		}
	})
	report, err := w.run(ctx, crew.Locks)
	stop()
	mirroring.Wait()
	if err != nil {
		return err
	}
	if crew.Notes != nil {
		report.Notes = crew.Notes()
	}
	last := message{Report: &report}
	if mirrored {
		last.Counters = m.counters(s.Job)
	}
	return messages.Encode(last)
}

// A worker runs a job.
type worker struct {
	Job
	*memory
	begun      chan struct{} // closed when the window has begun
	intrusions atomic.Int64
	shards     [64]struct { // each has what some of the goroutines report
		sync.Mutex
		Report
	}
}

// run uses the locks until ctx is done. The first error ends it.
func (w *worker) run(ctx context.Context, locks []Lock) (r Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var failed sync.Once
	for i, l := range locks {
		wg.Go(func() {
			if e := w.loop(ctx, w.First+i, l); e != nil {
				failed.Do(func() { err = e })
				cancel()
			}
		})
	}
	wg.Wait()
	for i := range w.shards {
		r.Merge(w.shards[i].Report)
	}
	r.Intrusions = w.intrusions.Load()
	return r, err
}

// loop is one goroutine.
func (w *worker) loop(ctx context.Context, number int, l Lock) error {
	slot, uncancelled := w.slot(number), context.WithoutCancel(ctx)
	for round := 0; ctx.Err() == nil; round++ {
		slot[asked].Store(now())
		grant, err := l.Acquire(ctx, round)
		if err != nil {
			w.waited(number, now(), (*Report).cut)
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		leave := w.enter(number, grant)
		if w.Hold > 0 && (round > 0 || !w.Once) {
			_ = Sleep(ctx, w.Hold)
		}
		intruded := leave != nil && leave()
		if intruded {
			w.intrusions.Add(1)
		}
		if err := l.Release(uncancelled, intruded); err != nil {
			return err
		}
		if w.Pause > 0 {
			_ = Sleep(ctx, w.Pause)
		}
		if w.Once {
			select {
			case <-w.begun:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// enter is called as soon as a goroutine has got a lock. It returns what to call before the
// release, or nil if another goroutine is inside.
func (w *worker) enter(number int, g Grant) (leave func() bool) {
	slot, section, visitor := w.slot(number), w.section(g.Name), int64(w.Process)<<32|int64(number+1)
	before := visitor
	if g.Shared {
		leave = section.enterShared()
	} else {
		before, leave = section.enter(visitor)
	}
	slot[rounds].Add(1)
	histogram := (*Report).granted
	if g.Passed {
		histogram = (*Report).passedOn
	}
	if !w.waited(number, now(), histogram) {
		return leave
	}
	slot[turns].Add(1)
	if g.Passed {
		slot[passed].Add(1)
	}
	if before == 0 || before == visitor {
		return leave
	}
	slot[handoffs].Add(1)
	if g.Passed {
		slot[passedHandoffs].Add(1)
	}
	if before>>32 != visitor>>32 {
		slot[crossings].Add(1)
	}
	return leave
}

// waited ends the wait of a goroutine, and adds it to a histogram. A wait beyond the end of the
// window is cut off. waited reports whether the wait was over in the window.
func (w *worker) waited(number int, at int64, histogram func(*Report) *Histogram) bool {
	slot := w.slot(number)
	from := slot[asked].Swap(0)
	first, last := w.window()
	if first == 0 || last != 0 && from >= last {
		return false
	}
	over := last == 0 || at <= last
	if !over {
		at, histogram = last, (*Report).cut
	}
	d := max(0, at-max(from, first))
	if d > slot[longest].Load() {
		slot[longest].Store(d)
	}
	s := &w.shards[number%len(w.shards)]
	s.Lock()
	histogram(&s.Report).Add(time.Duration(d))
	s.Unlock()
	return over
}

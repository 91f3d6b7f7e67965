// Package load makes load on locks and measures it. The benchmarks beside other libraries
// and the command holdfast bench are fronts of it: they say which locks there are, and how
// the result is shown.
//
// A load is a number of goroutines that acquire and release locks, in one process or in
// several. [Start] starts them. In the window between [Group.Begin] and [Group.End] they count
// what they do. All the time they check that the holders of a lock exclude each other.
package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A Failure is the end of a worker process that has not reported a result.
type Failure struct {
	Text string // its standard error
	Code int    // its exit status
}

func (f *Failure) Error() string { return f.Text }

// A Group is the processes of a load.
type Group struct {
	Jobs    []Job
	Reports []Report // of each job, after Stop

	memory *memory
	ctx    context.Context
	fail   context.CancelCauseFunc

	orders  []*json.Encoder
	inputs  []io.Closer
	ready   sync.WaitGroup
	running sync.WaitGroup
	before  [8]int64 // the traffic at the begin
	traffic [8]int64 // in the window
}

// Start starts jobs that share names, and returns when all their clients are open. Each job
// has a process that the command starts and that calls [Serve]. Without a command, the only
// job runs in this process. The end of ctx ends the load, and so does the first error.
func Start(ctx context.Context, names int, jobs []Job, open Open, command func(context.Context) (*exec.Cmd, error)) (*Group, error) {
	last := jobs[len(jobs)-1]
	s := size{Names: names, Goroutines: last.First + last.All(), Processes: len(jobs)}
	g := &Group{Reports: make([]Report, len(jobs)), Jobs: jobs, memory: newMemory(s)}
	g.ctx, g.fail = context.WithCancelCause(ctx)
	var files []*os.File
	if command != nil && sharing {
		m, f, err := createMemory(s)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		g.memory, files = m, append(files, f)
	}
	for i, j := range jobs {
		var err error
		if command == nil {
			g.serve(i, open)
		} else if err = g.spawn(i, files, command); err != nil {
			g.fail(err)
			break
		}
		_ = g.orders[i].Encode(setup{s, j})
	}
	g.ready.Wait()
	if g.ctx.Err() != nil {
		return nil, g.Stop()
	}
	return g, nil
}

// serve runs a job in this process.
func (g *Group) serve(i int, open Open) {
	in, orders := io.Pipe()
	messages, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := serve(g.ctx, in, out, open, g.memory)
		_, _ = in.Close(), out.Close()
		ended <- err
	}()
	g.join(i, orders, messages, func() error { return <-ended })
}

// spawn starts the process of a job.
func (g *Group) spawn(i int, files []*os.File, command func(context.Context) (*exec.Cmd, error)) error {
	cmd, err := command(g.ctx)
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.ExtraFiles, cmd.Stderr = files, &stderr // the first file is memoryFile
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Cancel, cmd.WaitDelay = in.Close, 30*time.Second // it releases its locks and exits
	if err := cmd.Start(); err != nil {
		return err
	}
	g.join(i, in, out, func() error {
		err := cmd.Wait()
		if err == nil {
			return nil
		}
		text := strings.TrimSpace(stderr.String())
		if text == "" {
			text = err.Error() // it was killed
		}
		return &Failure{text, cmd.ProcessState.ExitCode()}
	})
	return nil
}

// join adds a worker to the group. When its output ends, wait returns its error.
func (g *Group) join(i int, in io.WriteCloser, out io.Reader, wait func() error) {
	g.orders, g.inputs = append(g.orders, json.NewEncoder(in)), append(g.inputs, in)
	g.ready.Add(1)
	g.running.Go(func() {
		ready := sync.OnceFunc(g.ready.Done)
		defer ready()
		reported := false
		for messages := json.NewDecoder(out); ; ready() {
			var m message
			if messages.Decode(&m) != nil {
				break
			}
			g.memory.mirror(g.Jobs[i], m.Counters)
			if m.Report != nil {
				g.Reports[i], reported = *m.Report, true
			}
		}
		_, _ = io.Copy(io.Discard, out)
		err := wait()
		if err == nil && !reported {
			err = errors.New("load: a worker has ended early")
		}
		if err != nil {
			g.fail(err)
		}
	})
}

// Go makes all goroutines start.
func (g *Group) Go() { g.order(order{}) }

// order sends an order to all workers. Those that have ended do not matter here.
func (g *Group) order(o order) {
	for _, e := range g.orders {
		_ = e.Encode(o)
	}
}

// Sleep waits for d. It returns an error if the load has ended before.
func (g *Group) Sleep(d time.Duration) error {
	_ = Sleep(g.ctx, d)
	return context.Cause(g.ctx)
}

// AwaitAsked waits until all goroutines wait for a lock, or have had one.
func (g *Group) AwaitAsked() error {
	return g.await(0, func(s *slot) bool { return s[asked].Load() != 0 || s[rounds].Load() != 0 })
}

// WarmUp waits until all goroutines have had a lock. Until then, some subscribe or load
// scripts. Some libraries let a goroutine wait for long, so there is a limit.
func (g *Group) WarmUp(limit time.Duration) error {
	return g.await(limit, func(s *slot) bool { return s[rounds].Load() != 0 })
}

func (g *Group) await(limit time.Duration, is func(*slot) bool) error {
	began := time.Now()
	for i := 0; i < g.memory.Goroutines; {
		if is(g.memory.slot(i)) {
			i++
			continue
		}
		if limit > 0 && time.Since(began) > limit {
			break
		}
		if err := g.Sleep(5 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// Begin begins the window.
func (g *Group) Begin() {
	g.setWindow(order{Begin: now()})
	g.before = g.sent()
}

// End ends the window.
func (g *Group) End() {
	first, _ := g.memory.window()
	g.setWindow(order{first, now()})
	for k, n := range g.sent() {
		g.traffic[k] = n - g.before[k]
	}
}

func (g *Group) setWindow(o order) {
	g.memory.setWindow(o)
	g.order(o)
}

// sent returns the traffic of all processes so far.
func (g *Group) sent() (sum [8]int64) {
	for i := range g.Jobs {
		for k := range sum {
			sum[k] += g.memory.traffic(i)[k].Load()
		}
	}
	return sum
}

// Stop makes all goroutines stop and waits for their reports. It returns the error that has
// ended the load, if any.
func (g *Group) Stop() error {
	for _, in := range g.inputs {
		_ = in.Close()
	}
	timer := time.AfterFunc(time.Minute, func() { g.fail(fmt.Errorf("load: a worker does not stop")) })
	defer timer.Stop()
	g.running.Wait()
	err := context.Cause(g.ctx)
	g.fail(nil)
	return err
}

// Traffic returns one of the words of the traffic of all processes in the window.
func (g *Group) Traffic(word int) int64 { return g.traffic[word] }

// A Total is the sum of what some goroutines have done in the window. After Stop it is
// final.
type Total struct {
	Shares         []int64 // how often each had the lock
	Turns          int64   // the sum of these
	Passed         int64   // turns that were passed on without the server
	Handoffs       int64   // turns after another goroutine
	PassedHandoffs int64
	Crossings      int64 // hand-offs from another process
	Longest        time.Duration
	Took           time.Duration // the window
}

// Total returns the sum over the goroutines of some jobs.
func (g *Group) Total(jobs ...Job) Total {
	var slots []*slot
	for _, j := range jobs {
		for i := range j.All() {
			slots = append(slots, g.memory.slot(j.First+i))
		}
	}
	var t Total
	for _, s := range slots {
		t.Shares = append(t.Shares, s[turns].Load())
		t.Turns += s[turns].Load()
		t.Passed += s[passed].Load()
		t.Handoffs += s[handoffs].Load()
		t.PassedHandoffs += s[passedHandoffs].Load()
		t.Crossings += s[crossings].Load()
		t.Longest = max(t.Longest, time.Duration(s[longest].Load()))
	}
	from, to := g.memory.window()
	t.Took = time.Duration(to - from)
	return t
}

// Sleep waits for d, or until ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

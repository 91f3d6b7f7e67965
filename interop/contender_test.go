package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A turn is the times of an acquisition and its release, in nanoseconds of redistest.Now.
type turn struct{ Asked, Entered, Left, Done int64 }

// A contender is a library under measurement. It records its turns, and the same code
// evaluates the turns of all contenders.
type contender interface {
	// Run locks and releases the names for a while in threads of several processes. Each
	// thread uses the name of its number modulo the number of names. Run returns the
	// turns of each thread.
	Run(tb testing.TB, s *redistest.Server, processes, threads int, names []string, d time.Duration) [][]turn
	// Prepare is Run for any task, in three steps: start makes the threads start, and result
	// waits until they are done.
	Prepare(tb testing.TB, s *redistest.Server, processes, threads int, t task) (start func() (result func() [][]turn))
	// Hold holds many names at once until they are dropped.
	Hold(tb testing.TB, s *redistest.Server, names []string, watchdog time.Duration) (drop func())
	// Party returns an owner of a name in a process without other parties.
	Party(tb testing.TB, s *redistest.Server, name string) party
}

// A task says what to do with locks.
type task struct {
	Kind  string
	Names []string
	Hold  time.Duration // how long each turn lasts
	Pause time.Duration // after each turn
	Time  time.Duration // for how long to repeat this; zero: until all turns are taken
	Turns int           // how many turns each thread takes; zero: until the time is over
}

// redissons are peers that are processes of one fleet. They are reused, because a Java
// virtual machine is slow at first.
type redissons struct{ peers []*interop.Peer }

// javaFleet has the peers of the tests and benchmarks that do not run in parallel.
var javaFleet redissons

func (r *redissons) peer(tb testing.TB, i int) *interop.Peer {
	tb.Helper()
	for i >= len(r.peers) {
		p, err := interop.Start(interop.Current)
		if err != nil {
			tb.Fatal(err)
		}
		r.peers = append(r.peers, p)
	}
	return r.peers[i]
}

func (r *redissons) kill() {
	for _, p := range r.peers {
		p.Kill()
	}
	r.peers = nil
}

func (r *redissons) Run(tb testing.TB, s *redistest.Server, processes, threads int, names []string, d time.Duration) [][]turn {
	tb.Helper()
	return r.Prepare(tb, s, processes, threads, task{Kind: "mutex", Names: names, Time: d})()()
}

func (r *redissons) Prepare(tb testing.TB, s *redistest.Server, processes, threads int, t task) (start func() (result func() [][]turn)) {
	tb.Helper()
	clients := make([]*redisson, processes)
	for i := range clients {
		// A busy machine may take longer to answer than the default.
		clients[i] = join(tb, r.peer(tb, i), interop.Single(s.Addr()).With("singleServerConfig.timeout", 20_000))
	}
	jobs := make([]interop.Call, processes*threads)
	calls, release := 0, 0
	for i := range jobs {
		n := t.Names[i%len(t.Names)]
		lock := kindOf(t.Kind).java(tb, clients[i/threads], n)
		sequence := []interop.Call{lock.Call("", "lock")}
		sleep := func(d time.Duration) {
			if d > 0 {
				sequence = append(sequence, interop.Call{On: "java.lang.Thread", Method: "sleep", Args: []any{d.Milliseconds()}})
			}
		}
		sleep(t.Hold)
		release = len(sequence)
		sequence = append(sequence, lock.Call("", "unlock"))
		sleep(t.Pause)
		calls = len(sequence)
		jobs[i] = interop.Call{Thread: fmt.Sprint(n, i), Times: t.Turns, Millis: t.Time.Milliseconds(), Calls: sequence}
	}
	return func() (result func() [][]turn) {
		answers := make([]<-chan interop.Answer, len(jobs))
		for i, job := range jobs {
			answers[i] = r.peers[i/threads].Send(job)
		}
		return func() [][]turn {
			tb.Helper()
			all := make([][]turn, len(answers))
			for i, ch := range answers {
				a := within(tb, t.Time+5*time.Minute, ch)
				for spans := range slices.Chunk(a.Spans, calls) {
					lock, unlock := spans[0], spans[release]
					all[i] = append(all[i], turn{lock[0], lock[1], unlock[0], unlock[1]})
				}
			}
			return all
		}
	}
}

func (r *redissons) Hold(tb testing.TB, s *redistest.Server, names []string, watchdog time.Duration) (drop func()) {
	tb.Helper()
	c := join(tb, r.peer(tb, 0), interop.Single(s.Addr()).With("lockWatchdogTimeout", watchdog.Milliseconds()))
	for _, n := range names {
		c.get(tb, "getLock", n).do(tb, "hold", "lock")
	}
	return func() { _ = c.Close() }
}

func (r *redissons) Party(tb testing.TB, s *redistest.Server, name string) party {
	tb.Helper()
	number := int(names.Add(1)) % 2
	return newJava(tb, join(tb, r.peer(tb, number), interop.Single(s.Addr())), kinds[0], name, fmt.Sprint("party", number))
}

// holdfasts are clients with these options.
type holdfasts struct{ options holdfast.Options }

func init() { workers["contender"] = runInProcess }

// A workerJob is the job of a worker process.
type workerJob struct {
	URL     string
	Options holdfast.Options
	task
}

// runInProcess reads a workerJob, reports that it is ready, and starts when it reads
// another line.
func runInProcess() {
	in := json.NewDecoder(os.Stdin)
	var e workerJob
	if err := in.Decode(&e); err != nil {
		panic(err)
	}
	e.Options.Anonymous = true // tests compare all keys with those of Redisson
	c, err := holdfast.Open(context.Background(), e.URL, &e.Options)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	var start string
	_ = in.Decode(&start)
	if err := json.NewEncoder(os.Stdout).Encode(turns(c, e.task)); err != nil {
		panic(err)
	}
}

// turns locks and releases each name in its own goroutine.
func turns(c *holdfast.Client, t task) [][]turn {
	all := make([][]turn, len(t.Names))
	end := redistest.Now() + int64(t.Time)
	more := func(taken int) bool {
		return (t.Turns == 0 || taken < t.Turns) && (t.Time == 0 || redistest.Now() < end)
	}
	var wg sync.WaitGroup
	for i, n := range t.Names {
		wg.Go(func() {
			m := kindOf(t.Kind).golang(c, n)
			for more(len(all[i])) {
				v := turn{Asked: redistest.Now()}
				l, err := m.Lock(context.Background())
				if err != nil {
					panic(err)
				}
				v.Entered = redistest.Now()
				locktest.Work(t.Hold)
				v.Left = redistest.Now()
				if err := l.Release(context.Background()); err != nil {
					panic(err)
				}
				v.Done = redistest.Now()
				all[i] = append(all[i], v)
				locktest.Work(t.Pause)
			}
		})
	}
	wg.Wait()
	return all
}

func (h holdfasts) Run(tb testing.TB, s *redistest.Server, processes, threads int, names []string, d time.Duration) [][]turn {
	tb.Helper()
	return h.Prepare(tb, s, processes, threads, task{Kind: "mutex", Names: names, Time: d})()()
}

func (h holdfasts) Prepare(tb testing.TB, s *redistest.Server, processes, threads int, t task) (start func() (result func() [][]turn)) {
	tb.Helper()
	var running []*redistest.Process
	for i := range processes {
		e := workerJob{s.URL(), h.options, t}
		e.Names = nil
		for thread := range threads {
			e.Names = append(e.Names, t.Names[(i*threads+thread)%len(t.Names)])
		}
		p := redistest.Worker(tb, "contender")
		text, err := json.Marshal(e)
		if err != nil {
			tb.Fatal(err)
		}
		p.Send(string(text))
		running = append(running, p)
	}
	for _, p := range running {
		if l := <-p.Lines(); l != "ready" {
			tb.Fatal("output of the worker: ", l)
		}
	}
	return func() (result func() [][]turn) {
		for _, p := range running {
			p.Send(`"go"`)
		}
		return func() (all [][]turn) {
			tb.Helper()
			for _, p := range running {
				var some [][]turn
				if err := json.NewDecoder(strings.NewReader(<-p.Lines())).Decode(&some); err != nil {
					tb.Fatal(err)
				}
				all = append(all, some...)
			}
			return all
		}
	}
}

func (h holdfasts) Hold(tb testing.TB, s *redistest.Server, names []string, watchdog time.Duration) (drop func()) {
	tb.Helper()
	o := h.options
	o.WatchdogTimeout = watchdog
	c := open(tb, s.URL(), o)
	for _, n := range names {
		if _, err := c.Mutex(n).Lock(context.Background()); err != nil {
			tb.Fatal(err)
		}
	}
	return func() { _ = c.Close() }
}

func (h holdfasts) Party(tb testing.TB, s *redistest.Server, name string) party {
	return newGo(open(tb, s.URL(), h.options), kinds[0], name)
}

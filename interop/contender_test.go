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
	// Hold holds many names at once until they are dropped.
	Hold(tb testing.TB, s *redistest.Server, names []string, watchdog time.Duration) (drop func())
	// Party returns an owner of a name in a process without other parties.
	Party(tb testing.TB, s *redistest.Server, name string) party
}

// redissons are the peers of the benchmark. They are reused, because a Java virtual
// machine is slow at first.
type redissons struct{ peers []*interop.Peer }

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
}

func (r *redissons) Run(tb testing.TB, s *redistest.Server, processes, threads int, names []string, d time.Duration) [][]turn {
	tb.Helper()
	clients := make([]*redisson, processes)
	for i := range clients {
		clients[i] = join(tb, r.peer(tb, i), interop.Single(s.Addr()))
	}
	answers := make([]<-chan interop.Answer, processes*threads)
	for i := range answers {
		lock := clients[i/threads].get(tb, "getLock", names[i%len(names)])
		answers[i] = r.peers[i/threads].Send(interop.Call{
			Thread: fmt.Sprint("compare", i), Millis: d.Milliseconds(),
			Calls: []interop.Call{lock.Call("", "lock"), lock.Call("", "unlock")},
		})
	}
	all := make([][]turn, len(answers))
	for i, ch := range answers {
		a := within(tb, d+time.Minute, ch)
		for pair := range slices.Chunk(a.Spans, 2) {
			all[i] = append(all[i], turn{pair[0][0], pair[0][1], pair[1][0], pair[1][1]})
		}
	}
	return all
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
	Names   []string
	Time    time.Duration
}

// runInProcess reads a workerJob, reports that it is ready, and starts when it reads
// another line.
func runInProcess() {
	in := json.NewDecoder(os.Stdin)
	var e workerJob
	if err := in.Decode(&e); err != nil {
		panic(err)
	}
	c, err := holdfast.Open(context.Background(), e.URL, e.Options)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	var start string
	_ = in.Decode(&start)
	if err := json.NewEncoder(os.Stdout).Encode(turns(c, e.Names, e.Time)); err != nil {
		panic(err)
	}
}

// turns locks and releases each name in its own goroutine.
func turns(c *holdfast.Client, names []string, d time.Duration) [][]turn {
	all := make([][]turn, len(names))
	end := redistest.Now() + int64(d)
	var wg sync.WaitGroup
	for i, n := range names {
		wg.Go(func() {
			m := c.Mutex(n)
			for redistest.Now() < end {
				v := turn{Asked: redistest.Now()}
				l, err := m.Lock(context.Background())
				if err != nil {
					panic(err)
				}
				v.Entered = redistest.Now()
				v.Left = redistest.Now()
				if err := l.Release(context.Background()); err != nil {
					panic(err)
				}
				v.Done = redistest.Now()
				all[i] = append(all[i], v)
			}
		})
	}
	wg.Wait()
	return all
}

func (h holdfasts) Run(tb testing.TB, s *redistest.Server, processes, threads int, names []string, d time.Duration) (all [][]turn) {
	tb.Helper()
	var running []*redistest.Process
	for i := range processes {
		e := workerJob{URL: s.URL(), Options: h.options, Time: d}
		for t := range threads {
			e.Names = append(e.Names, names[(i*threads+t)%len(names)])
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
	for _, p := range running {
		p.Send(`"go"`)
	}
	for _, p := range running {
		var some [][]turn
		if err := json.NewDecoder(strings.NewReader(<-p.Lines())).Decode(&some); err != nil {
			tb.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
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

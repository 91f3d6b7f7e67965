package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Workers are the programs that the tests of this package start as processes of their own.
var Workers = map[string]func(){"fleet": fleetWorker}

// A version is one version of a program in a fleet that migrates. It takes the lock "order:42",
// runs fn, and releases the lock.
type version func(ctx context.Context, fn func(context.Context) error) error

// versions open the clients of each version, with the environment of a worker.
var versions = map[string]func() (version, error){
	"holdfast": func() (version, error) {
		client, err := openInFleet()
		return func(ctx context.Context, fn func(context.Context) error) error {
			return client.Mutex("order:42").Do(ctx, fn)
		}, err
	},
}

// fleetLease is how long a lock of Holdfast lasts after its process has died.
const fleetLease = 5 * time.Second

func openInFleet() (*holdfast.Client, error) {
	return holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &holdfast.Options{WatchdogTimeout: fleetLease})
}

// fleetWorker takes the lock again and again, and prints when it had it. If TEST_STAY is set, it
// keeps the lock until it is killed.
func fleetWorker() {
	name := os.Getenv("TEST_VERSION")
	do, err := versions[name]()
	if err != nil {
		panic(err)
	}
	rec := redistest.NewRecorder(os.Stdout)
	for {
		iv := redistest.Interval{Name: "order:42", Owner: fmt.Sprintf("%s, process %d", name, os.Getpid())}
		err := do(context.Background(), func(ctx context.Context) error {
			if os.Getenv("TEST_STAY") != "" {
				fmt.Println("held")
				<-ctx.Done()
				return context.Cause(ctx)
			}
			for iv.Enter == 0 || iv.Leave < iv.Enter+int64(2*time.Millisecond) {
				now := redistest.Now() // before ctx is asked: at this moment the lock was held
				if ctx.Err() != nil {
					return nil
				}
				if iv.Enter == 0 {
					iv.Enter = now
				}
				iv.Leave = now
				locktest.Work(time.Millisecond / 2)
			}
			return nil
		})
		if err != nil {
			panic(err)
		}
		if iv.Enter != 0 {
			rec.Record(iv)
		}
		locktest.Work(10 * time.Millisecond)
	}
}

// A fleet is a set of processes that use one lock.
type fleet struct {
	t   *testing.T
	env []string

	mu  sync.Mutex
	out bytes.Buffer // the intervals of all processes
	all []*fleetProcess
}

type fleetProcess struct {
	*redistest.Process
	version string
	turns   atomic.Int32
	ended   sync.WaitGroup
}

// start starts a process of each of the given versions.
func (f *fleet) start(versions ...string) {
	f.t.Helper()
	for _, v := range versions {
		p := &fleetProcess{version: v, Process: redistest.Worker(f.t, "fleet", append(f.env, "TEST_VERSION="+v)...)}
		f.all = append(f.all, p)
		p.ended.Go(func() {
			for line := range p.Lines() {
				f.mu.Lock()
				fmt.Fprintln(&f.out, line)
				f.mu.Unlock()
				p.turns.Add(1)
			}
		})
	}
}

// kill kills the processes of a version. One of them may hold the lock.
func (f *fleet) kill(version string) {
	var rest []*fleetProcess
	for _, p := range f.all {
		if p.version != version {
			rest = append(rest, p)
			continue
		}
		p.Kill()
		p.ended.Wait()
	}
	f.all = rest
}

// await waits until every process has had the lock 25 times more.
func (f *fleet) await() {
	f.t.Helper()
	for _, p := range f.all {
		p.turns.Store(0)
	}
	begin := time.Now()
	for _, p := range f.all {
		locktest.Eventually(f.t, time.Minute, "25 turns of "+p.version, func() bool { return p.turns.Load() >= 25 })
	}
	text := ""
	for _, p := range f.all {
		text += fmt.Sprintf(" %s: %d;", p.version, p.turns.Load())
	}
	f.t.Logf("turns after %v:%s", time.Since(begin).Round(time.Millisecond), text)
}

// check ends the processes and checks that no two have held the lock at the same time.
func (f *fleet) check() {
	f.t.Helper()
	for len(f.all) > 0 {
		f.kill(f.all[0].version)
	}
	locktest.CheckExclusive(f.t, &f.out, 1)
}

// migrate runs a fleet through the three versions of a migration: some processes of each version
// run beside some of the next. The old ones are killed, so that some die with the lock.
func migrate(t *testing.T, env []string, first, second, third string) {
	f := &fleet{t: t, env: env}
	f.start(first, second, first, second)
	f.await()
	f.kill(first)
	f.start(third, third)
	f.await()
	f.kill(second)
	f.await()
	f.check()
}

// holdUntilKilled starts a process that takes the lock and keeps it.
func holdUntilKilled(t *testing.T, env []string, version string) *redistest.Process {
	t.Helper()
	p := redistest.Worker(t, "fleet", append(env, "TEST_VERSION="+version, "TEST_STAY=1")...)
	if line, _ := locktest.Receive(p.Lines(), time.Minute); line != "held" {
		t.Fatalf("%s: %q", version, line)
	}
	return p
}

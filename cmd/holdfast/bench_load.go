package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/load"
)

// A benchFront is what a process needs to open its clients. It is not an argument, because
// the URL may contain a password.
type benchFront struct {
	URL, Config string
	Kind        benchKind
	Prefix      string
	Names       int
}

func (f benchFront) name(i int) string { return fmt.Sprint(f.Prefix, ":", i) }

// benchWorker is the hidden command that bench runs in its worker processes.
func benchWorker(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "bench-worker",
		Hidden: true,
		Short:  "Run one process of bench",
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			err := load.Serve(ctx, a.in, a.out, func(ctx context.Context, j load.Job, t *load.Traffic) (load.Crew, error) {
				var f benchFront
				if err := json.Unmarshal(j.Front, &f); err != nil {
					return load.Crew{}, err
				}
				a.target.url, a.target.config = f.URL, f.Config
				return f.open(ctx, &a.target, j, t)
			})
			if errors.Is(err, load.ErrNoJob) {
				return usage("bench-worker is internal: run holdfast bench instead")
			}
			return err
		}),
	}
}

// open opens the clients of a job, some at a time.
func (f benchFront) open(ctx context.Context, t *target, j load.Job, traffic *load.Traffic) (load.Crew, error) {
	quiet := slog.New(slog.DiscardHandler) // the warnings of the connect were printed before
	opened, clients := make([]*holdfast.Client, j.Clients), make([]*holdfast.Client, j.Clients)
	log := new(benchLog)
	err := load.Each(j.Clients, 8, func(i int) (err error) {
		if opened[i], err = t.open(ctx, holdfast.Options{Logger: quiet}); err != nil {
			return err
		}
		counted := benchDriver{opened[i].Driver(), traffic}
		clients[i], err = holdfast.New(counted, &holdfast.Options{RetryTimeout: 3 * time.Second, Logger: slog.New(log)})
		return err
	})
	closeAll := func() {
		for _, list := range [][]*holdfast.Client{clients, opened} { // those that use the others first
			_ = load.Each(len(list), len(list), func(i int) error {
				if list[i] == nil {
					return nil
				}
				return list[i].Close()
			})
		}
	}
	if err != nil {
		closeAll()
		return load.Crew{}, err
	}
	crew := load.Crew{Close: closeAll, Notes: log.list}
	owners := make([]atomic.Pointer[string], f.Names)
	for _, c := range clients {
		names := make([]benchName, f.Names)
		for i := range names {
			names[i] = benchName{benchKinds[f.Kind].take(c, f.name(i)), &owners[i]}
		}
		for range j.Goroutines {
			crew.Locks = append(crew.Locks, &benchLock{kind: f.Kind, names: names, first: len(crew.Locks)})
		}
	}
	return crew, nil
}

// A benchTake acquires a lock in the given round.
type benchTake func(ctx context.Context, round int) (*holdfast.Lease, error)

// A benchName is a lock of one client.
type benchName struct {
	take  benchTake
	owner *atomic.Pointer[string] // the last one in this process
}

// A benchLock is one goroutine, which takes the names in turn.
type benchLock struct {
	kind  benchKind
	names []benchName
	first int
	lease *holdfast.Lease
}

// Acquire implements load.Lock.
func (l *benchLock) Acquire(ctx context.Context, round int) (g load.Grant, err error) {
	g.Name = (l.first + round) % len(l.names)
	n := l.names[g.Name]
	if l.lease, err = n.take(ctx, round); err != nil {
		return g, err
	}
	owner := l.lease.Owner()
	before := n.owner.Swap(&owner)
	g.Passed = before != nil && *before == owner // an owner is new for every grant of the server
	shared := benchKinds[l.kind].shared
	g.Shared = shared != nil && shared(round)
	return g, nil
}

// Release implements load.Lock. It fails if another goroutine got the lock while the lease is valid.
func (l *benchLock) Release(ctx context.Context, intruded bool) error {
	violated := intruded && l.lease.Valid()
	err := l.lease.Release(ctx)
	if violated {
		return hint(fmt.Errorf("two owners held the lock %s at the same time", term.Quote(l.lease.Name(), 60)),
			"If the server has not lost or deleted it, this is a bug: please report it.")
	}
	return err
}

// A benchFloor is one goroutine that runs empty scripts.
type benchFloor struct {
	driver driver.Driver
	script *driver.Script
	keys   []string
	first  int
}

// Acquire implements load.Lock.
func (f *benchFloor) Acquire(ctx context.Context, round int) (load.Grant, error) {
	i := (f.first + round) % len(f.keys)
	_, err := f.driver.Do(ctx, driver.Call{Script: f.script, Keys: f.keys[i:][:1]})
	return load.Grant{Name: i, Shared: true}, err
}

// Release implements load.Lock.
func (f *benchFloor) Release(context.Context, bool) error { return nil }

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

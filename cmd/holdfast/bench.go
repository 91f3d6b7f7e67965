package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/display"
	"github.com/holdfast-go/holdfast/internal/load"
)

func init() { commands = append(commands, benchCommand, benchWorker) }

// A bench holds the settings of a measurement.
type bench struct {
	*app
	mode                         server.Mode // empty: start no server
	kind                         benchKind
	time, hold                   time.Duration
	goroutines, processes, names int
	crowd                        int // 0: none
	prefix                       string
	force, json                  bool
	flags                        *pflag.FlagSet
}

func benchCommand(a *app) *cobra.Command {
	b := &bench{app: a, kind: "mutex"}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast locks are on a server",
		Long: `Bench acquires and releases locks on a server for a few seconds. It shows how
many locks per second the server granted, how long each acquisition took, how
many requests were sent, and how equally the locks were shared.

There are two loads:

  --goroutines   The goroutines of each process share a client. They pass a
                 mutex on to each other without the server, which is much
                 faster. Bench counts these locks separately from those that
                 the server granted. This is the default.
  --crowd        Clients with one goroutine each, which share nothing and all
                 want the same lock, as many machines do. Every hand-off needs
                 the server.

A hand-off is an acquisition by a goroutine other than the previous holder.
Bench counts the requests that it sends: scripts, waits for replicas, and
subscriptions per channel. It does not use the server's counters, because these
include the requests of other clients. Jain's index is 1 if all goroutines got
the lock equally often, and 1/n if one of n got it all the time.

Bench first measures empty scripts, run by the goroutines of one process, or one
at a time for a crowd. A lock that needs the server cannot be faster, so compare
with these rather than with results from other machines. All the time, bench
checks that no two owners hold a lock at the same time. If they do, it ends with
status 1.

Bench puts load on the server: do not run it on a production server. Its lock
names start with --prefix and a random part. It removes its keys at the end,
also after Ctrl-C. It rejects the embedded server unless --force is given,
because the speed of that server says nothing about Redis.

  --kind mutex, "fair mutex", "fenced mutex"   one holder at a time
  --kind "read/write mutex"                    nine of ten locks are reads

With --json, it prints one document:

  server         node, version, embedded
  kind, names, goroutines, crowd, processes, holdMs
                 the settings; goroutines is 0 with --crowd, and crowd without
  tookMs         duration of the measurement
  grantedByServer
                 latencies of the locks that the server granted: count,
                 perSecond, p50Ms, p90Ms, p99Ms, maxMs
  passedInProcess
                 the same for locks that were passed on without the server
  locks          the same for both together
  floor          the same for empty scripts
  histogram      list of latency classes of locks, each with belowMs and count
  handoffs       count; of these throughServer and inProcess; and
                 throughServerPerSecond. It is null if the kind has none
  requests       scripts and subscriptions that were sent; and perLock,
                 perServerGrant, perServerHandoff, their number per lock, per
                 lock that the server granted, and per hand-off through the
                 server, or null
  messages       received from the server
  jainIndex      over the numbers of locks of the goroutines
  longestWaitMs  also of a goroutine that still waited at the end
  warnings       texts, such as a missing permission that makes locks slower`,
		Example: `  holdfast bench
  holdfast bench --server real                             # starts a server
  holdfast bench --crowd 50                                # 50 clients
  holdfast bench --crowd 200 --processes 4 --kind "fair mutex" --hold 2ms
  holdfast bench --names 1000 --goroutines 64 --for 10s --json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              interruptible(func(ctx context.Context, _ []string) error { return b.run(ctx) }),
	}
	f := cmd.Flags()
	b.flags = f
	serverFlag(cmd, &b.mode, "start this kind of server and stop it at the end")
	f.Var(&b.kind, "kind", "kind of lock")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(benchKindNames, cobra.ShellCompDirectiveNoFileComp))
	f.DurationVar(&b.time, "for", 5*time.Second, "duration of the measurement")
	f.IntVar(&b.goroutines, "goroutines", 16, "number of goroutines in each process")
	f.IntVar(&b.crowd, "crowd", 0, "number of clients that share nothing and want one lock, instead of --goroutines")
	f.IntVar(&b.processes, "processes", 1, "number of processes; a crowd is spread over them")
	f.IntVar(&b.names, "names", 1, "number of locks that the goroutines share")
	f.DurationVar(&b.hold, "hold", 0, "how long each lock is held")
	f.StringVar(&b.prefix, "prefix", "holdfast-bench:", "prefix of the lock names, for a user with access to some keys only")
	f.BoolVar(&b.force, "force", false, "allow an embedded server")
	f.BoolVar(&b.json, "json", false, "print JSON, as described above")
	return cmd
}

// check validates the flags.
func (b *bench) check() error {
	err := errors.Join(
		within("goroutines", b.goroutines, 1, 10_000),
		within("processes", b.processes, 1, 64),
		within("names", b.names, 1, 100_000))
	if b.flags.Changed("crowd") {
		err = errors.Join(err, within("crowd", b.crowd, 2, 1000))
	}
	switch {
	case err != nil:
		return err
	case b.crowd > 0 && b.flags.Changed("goroutines"):
		return usage("--crowd has one goroutine per client: omit either --crowd or --goroutines")
	case b.crowd > 0 && b.names > 1:
		return usage("--crowd wants one lock: omit either --crowd or --names")
	case b.crowd > 0 && b.crowd < b.processes:
		return usage("--crowd is %d: it must be at least --processes, which is %d", b.crowd, b.processes)
	case b.time < 100*time.Millisecond || b.time > time.Hour:
		return usage("--for is %v: it must be between 100ms and 1h", b.time)
	case b.hold < 0 || b.hold > time.Minute:
		return usage("--hold is %v: it must be between 0s and 1m", b.hold)
	case b.mode != "" && (b.target.url != "" || b.target.config != ""):
		return usage("--server starts a server: omit either --server or --url and --config")
	case strings.ContainsAny(b.prefix, "{}"):
		return usage("--prefix contains a brace: remove it, because it would keep the locks in one slot of a cluster")
	case b.mode == server.Embedded && !b.force:
		return errEmbedded()
	}
	return nil
}

func errEmbedded() error {
	return hint(usage("this is an embedded server: its speed says nothing about Redis"), "Use a real server with --url, start one with --server real, or add --force.")
}

func (b *bench) run(ctx context.Context) error {
	if err := b.check(); err != nil {
		return err
	}
	if b.mode != "" {
		s, err := server.Start(ctx, b.mode, "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer s.Stop()
		fmt.Fprintf(b.notices(), "Started %s at %s for this run.\n", s.What, s.URL)
		b.target.url, b.target.config = s.URL, ""
	}
	client, err := b.target.open(ctx, holdfast.Options{})
	if unanswered(err) && !b.target.named() {
		return hint(err, "Set a server with --url or HOLDFAST_URL, or let bench start one with --server real.")
	}
	if err != nil {
		return err
	}
	defer client.Close()
	facts, err := driver.FactsAt(ctx, client.Driver(), b.prefix)
	embedded := err == nil && server.IsEmbedded(facts.Info) // only a real server can deny INFO
	if embedded && !b.force {
		return errEmbedded()
	}
	r, err := b.measure(ctx, client)
	if err != nil {
		return err
	}
	r.Server = benchServer{facts.Node, facts.Release(), embedded}
	if b.json {
		return b.printJSON(r)
	}
	r.show(b.screen())
	return nil
}

// measure measures empty scripts and locks, and then removes all keys.
func (b *bench) measure(ctx context.Context, client *holdfast.Client) (*benchReport, error) {
	front := benchFront{b.target.address(), b.target.config, b.kind, b.prefix + rand.Text(), b.names}
	names := make([]string, b.names)
	for i := range names {
		names[i] = front.name(i)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if err := b.kind.remove(ctx, client.Driver(), names); err != nil {
			fmt.Fprintf(b.notices(), "Some keys with %s in their names may remain on the server: %s\n", front.Prefix, harmless(err.Error()))
		}
	}()
	floor, err := b.floor(ctx, client.Driver(), names)
	if err != nil {
		return nil, err
	}
	clients, goroutines := b.processes, b.goroutines
	if b.crowd > 0 {
		clients, goroutines = b.crowd, 1
	}
	jobs, err := load.Divide(front, b.processes, clients, goroutines)
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		jobs[i].Hold = b.hold
	}
	result, err := b.load(ctx, "locks  ", b.time, jobs, func(ctx context.Context, j load.Job, t *load.Traffic) (load.Crew, error) {
		return front.open(ctx, &b.target, j, t)
	})
	if err != nil {
		return nil, err
	}
	return b.report(result, floor), nil
}

// remove deletes the keys of the locks. These are the counter of a fenced mutex,
// which outlives the lock because tokens must keep rising, and the hold and the
// queue entry of a worker that was killed.
func (k benchKind) remove(ctx context.Context, d driver.Driver, names []string) error {
	script := driver.NewScript("bench_remove", "return redis.call('DEL', unpack(KEYS))")
	queue := true
	for i := 0; i < len(names); i++ {
		n := names[i]
		keys := []string{n}
		for _, prefix := range benchKinds[k].extraKeys {
			keys = append(keys, prefix+":{"+n+"}")
		}
		if queue {
			keys = append(keys, "holdfast:queue:{"+n+"}")
		}
		_, err := d.Do(ctx, driver.Call{Script: script, Keys: keys})
		switch {
		case err != nil && queue && driver.CodeOf(err) == "NOPERM":
			queue = false // without the right to the queue, there is none
			i--
		case err != nil:
			return err
		}
	}
	return nil
}

// floor measures empty scripts. A hand-off in a crowd takes at least one round trip, and
// they are one after the other, so the floor of a crowd is one script at a time.
func (b *bench) floor(ctx context.Context, d driver.Driver, names []string) (benchLatency, error) {
	goroutines := b.goroutines
	if b.crowd > 0 {
		goroutines = 1
	}
	jobs, err := load.Divide(nil, 1, 1, goroutines)
	if err != nil {
		return benchLatency{}, err
	}
	script := driver.NewScript("bench_floor", "return 1")
	r, err := b.load(ctx, "scripts", min(b.time/4, 2*time.Second), jobs, func(context.Context, load.Job, *load.Traffic) (load.Crew, error) {
		crew := load.Crew{Close: func() {}}
		for i := range goroutines {
			crew.Locks = append(crew.Locks, &benchFloor{d, script, names, i})
		}
		return crew, nil
	})
	return newBenchLatency(r.waits.Granted, r.Took), err
}

// A benchResult is what the processes of a load have done.
type benchResult struct {
	load.Total
	waits                            load.Report
	scripts, subscriptions, messages int64
}

// load runs jobs until the time is over, and until there is a lock. Several jobs have a process
// each.
func (b *bench) load(ctx context.Context, what string, limit time.Duration, jobs []load.Job, open load.Open) (r benchResult, err error) {
	var command func(context.Context) (*exec.Cmd, error)
	if len(jobs) > 1 {
		command = benchProcess
	}
	for i := range jobs {
		jobs[i].Once = true
	}
	g, err := load.Start(ctx, b.names, jobs, open, command)
	if err != nil {
		return r, benchFailure(err)
	}
	g.Go()
	_ = g.WarmUp(limit / 2) // Stop returns its error, too
	g.Begin()
	end := b.progress(what, g, limit)
	err = g.Sleep(limit)
	for err == nil && g.Total(jobs...).Turns == 0 {
		err = g.Sleep(time.Millisecond)
	}
	g.End()
	end()
	if err := g.Stop(); err != nil {
		return r, benchFailure(err)
	}
	r = benchResult{Total: g.Total(jobs...), scripts: g.Traffic(load.Scripts), subscriptions: g.Traffic(load.Subscriptions), messages: g.Traffic(load.Messages)}
	for _, report := range g.Reports {
		r.waits.Merge(report)
	}
	return r, nil
}

func benchProcess(ctx context.Context) (*exec.Cmd, error) {
	program, err := os.Executable()
	return exec.CommandContext(ctx, program, "bench-worker"), err
}

// benchFailure returns the error of a load.
func benchFailure(err error) error {
	f := new(load.Failure)
	if errors.As(err, &f) {
		return &exit{max(f.Code, failed), fmt.Errorf("a bench process failed: %s", strings.TrimPrefix(f.Text, "holdfast: "))}
	}
	return err
}

// progress shows a progress line until end is called. The number is that of empty
// scripts, or of locks that the server has granted.
func (b *bench) progress(what string, g *load.Group, limit time.Duration) (end func()) {
	began, line := time.Now(), b.notices().Progress(what)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for load.Sleep(ctx, 100*time.Millisecond) == nil {
			t, past := g.Total(g.Jobs...), time.Since(began)
			n := t.Turns - t.Passed
			line.Set(float64(past)/float64(limit), "%s from the server, %s a second", display.Thousands(n), display.Thousands(int64(float64(n)/past.Seconds())))
		}
		line.End()
	})
	return func() { cancel(); wg.Wait() }
}

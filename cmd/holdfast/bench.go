package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/driver"
)

func init() { commands = append(commands, benchCommand, benchWorker) }

// A bench is what was asked for.
type bench struct {
	*app
	mode                         server.Mode // empty: start none
	kind                         benchKind
	time                         time.Duration
	goroutines, processes, names int
	prefix                       string
	force, json                  bool
}

func benchCommand(a *app) *cobra.Command {
	b := &bench{app: a, kind: "mutex"}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "See how fast locks are on a server of yours",
		Long: `Bench takes and releases locks on a server for a few seconds and shows how many
there were, how long it took to have one, and what they cost the server. First
it has the goroutines of one process run a script that does nothing: no lock
that asks the server can be faster, so compare the two lines, not machines.

It puts a load on the server: do not run it where others depend on one. Its
names begin with --prefix and something random, and it removes them at the end,
also on Ctrl-C. The embedded server is refused unless --force is given:
what it does says nothing about Redis.

With few names, goroutines contend. A hand-off is a lock that another goroutine
gets than the one that had it before; most of them happen inside the process,
without the server. (With several --processes, a goroutine that gets it back
from another process is not counted.) Commands are those that this command has
sent: scripts, waits for replicas, and subscriptions per channel; the server
itself is not asked, since it would count those of others, too.

  --kind mutex, fair, fenced   one at a time
  --kind rw                    nine of ten take it to read

With --json, it prints one document:

  server         node and version, and embedded
  kind, names, goroutines, processes     what was asked for
  tookMs         how long it ran
  locks          latencies of those taken and released: count, perSecond, p50Ms,
                 p90Ms, p99Ms, maxMs
  floor          the same for scripts that do nothing
  histogram      how many locks took how long: belowMs, count
  handoffs       how many there were; null if the kind has none
  handoffsWithoutServer                  of these, inside the process
  scripts, subscriptions, messages       sent to, and heard from the server
  commandsPerLock, commandsPerHandoff    of scripts and subscriptions`,
		Example: `  holdfast bench
  holdfast bench --server real                             # starts one for it
  holdfast bench --kind fair --goroutines 64 --for 10s
  holdfast bench --names 1000 --processes 4 --json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              interruptible(func(ctx context.Context, _ []string) error { return b.run(ctx) }),
	}
	f := cmd.Flags()
	serverFlag(cmd, &b.mode, "start a server for it, and stop that at the end")
	f.Var(&b.kind, "kind", "which kind of lock")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(benchKindNames, cobra.ShellCompDirectiveNoFileComp))
	f.DurationVar(&b.time, "for", 5*time.Second, "for how long")
	f.IntVar(&b.goroutines, "goroutines", 16, "how many goroutines, in each process")
	f.IntVar(&b.processes, "processes", 1, "how many processes")
	f.IntVar(&b.names, "names", 1, "how many locks they share")
	f.StringVar(&b.prefix, "prefix", "holdfast-bench:", "how their names begin, if the user may not use all keys")
	f.BoolVar(&b.force, "force", false, "use an embedded server, too")
	f.BoolVar(&b.json, "json", false, "print JSON, for machines")
	return cmd
}

// check refuses what makes no sense.
func (b *bench) check() error {
	err := errors.Join(
		within("goroutines", b.goroutines, 1, 10_000),
		within("processes", b.processes, 1, 64),
		within("names", b.names, 1, 100_000))
	switch {
	case err != nil:
		return err
	case b.time < 100*time.Millisecond || b.time > time.Hour:
		return usage("--for is %v: choose between 100ms and 1h", b.time)
	case b.mode != "" && (b.target.url != "" || b.target.config != ""):
		return usage("--server starts a server: leave out --url and --config, or leave out --server")
	case strings.ContainsAny(b.prefix, "{}"):
		return usage("--prefix has a brace: leave it out, so that the locks spread over a cluster")
	case b.mode == server.Embedded && !b.force:
		return errEmbedded()
	}
	return nil
}

func errEmbedded() error {
	return hint(usage("this is an embedded server: what it does says nothing about Redis"), "Name a real one with --url, start one with --server real, or use --force.")
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
		fmt.Fprintf(b.notices(), "Started %s at %s, for this only.\n", s.What, s.URL)
		b.target.url, b.target.config = s.URL, ""
	}
	client, err := b.target.open(ctx, holdfast.Options{})
	if errors.Is(err, holdfast.ErrUnavailable) && !b.target.named() {
		return hint(err, "Name a server with --url or HOLDFAST_URL, or let bench start one: --server real.")
	}
	if err != nil {
		return err
	}
	defer client.Close()
	facts, err := driver.FactsAt(ctx, client.Driver(), b.prefix)
	embedded := err == nil && server.IsEmbedded(facts.Info) // who may not ask has a real one
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

// measure measures the floor and the locks, and removes what they have left.
func (b *bench) measure(ctx context.Context, client *holdfast.Client) (*benchReport, error) {
	names := make([]string, b.names)
	prefix := b.prefix + rand.Text()
	for i := range names {
		names[i] = fmt.Sprint(prefix, ":", i)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if err := b.kind.remove(ctx, client.Driver(), names); err != nil {
			fmt.Fprintf(b.notices(), "Some keys with %s in their names may be left: %s\n", prefix, harmless(err.Error()))
		}
	}()
	var running atomic.Int64
	floor, took, err := b.floor(ctx, client.Driver(), names, &running)
	if err != nil {
		return nil, err
	}
	running.Store(0)
	show := b.progress("locks  ", &running, b.time)
	result, err := b.load(ctx, benchJob{b.kind, names, b.goroutines, b.time}, &running)
	show()
	if err := errors.Join(ctx.Err(), err); err != nil {
		return nil, err
	}
	return b.report(result, newBenchLatency(floor, took)), nil
}

// remove removes what is left of locks that nobody has. That is the counter of
// a fenced mutex, which no method removes since whoever holds a token relies on
// it; and after a worker was killed, its hold and its place in the queue.
func (k benchKind) remove(ctx context.Context, d driver.Driver, names []string) error {
	script := driver.NewScript("bench_remove", "return redis.call('DEL', unpack(KEYS))")
	for _, n := range names {
		keys := []string{n}
		for _, prefix := range benchKinds[k].beside {
			keys = append(keys, prefix+":{"+n+"}")
		}
		if _, err := d.Do(ctx, driver.Call{Script: script, Keys: keys}); err != nil {
			return err
		}
	}
	return nil
}

// floor measures scripts that do nothing.
func (b *bench) floor(ctx context.Context, d driver.Driver, names []string, running *atomic.Int64) (*hdrhistogram.Histogram, time.Duration, error) {
	limit := min(b.time/4, 2*time.Second)
	defer b.progress("scripts", running, limit)()
	script, began := driver.NewScript("bench_floor", "return 1"), time.Now()
	h, err := benchAll(ctx, limit, b.goroutines, func(ctx context.Context, goroutine, round int) (time.Duration, error) {
		began := time.Now()
		_, err := d.Do(ctx, driver.Call{Script: script, Keys: names[(goroutine+round)%len(names):][:1]})
		running.Add(1)
		return time.Since(began), err
	})
	return h, time.Since(began), errors.Join(ctx.Err(), err)
}

// load runs the job in as many processes as wanted.
func (b *bench) load(ctx context.Context, job benchJob, running *atomic.Int64) (benchResult, error) {
	if b.processes > 1 {
		return b.workers(ctx, job, running)
	}
	client, err := b.target.open(ctx, holdfast.Options{})
	if err != nil {
		return benchResult{}, err
	}
	defer client.Close()
	return job.run(ctx, client.Driver(), running)
}

// progress shows how it goes, until what it returns is called.
func (b *bench) progress(what string, running *atomic.Int64, limit time.Duration) (end func()) {
	began, done, gone := time.Now(), make(chan struct{}), make(chan struct{})
	line := b.notices().Progress(what)
	go func() {
		defer close(gone)
		for {
			select {
			case <-done:
				line.End()
				return
			case <-time.After(100 * time.Millisecond):
				past, n := time.Since(began), running.Load()
				line.Set(float64(past)/float64(limit), "%s, %s a second", term.Thousands(n), term.Thousands(int64(float64(n)/past.Seconds())))
			}
		}
	}()
	return func() { close(done); <-gone }
}

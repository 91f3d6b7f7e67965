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

// A bench holds the settings of a measurement.
type bench struct {
	*app
	mode                         server.Mode // empty: start no server
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
		Short: "Measure how fast locks are on a server",
		Long: `Bench acquires and releases locks on a server for a few seconds. It shows how
many locks were acquired, how long each acquisition took, and how many commands
were sent. It first measures empty scripts, run by the goroutines of one
process. A lock that needs the server cannot be faster than an empty script, so
compare these two lines rather than results from different machines.

Bench puts load on the server: do not run it on a production server. Its lock
names start with --prefix and a random part. It removes its keys at the end,
also after Ctrl-C. It rejects the embedded server unless --force is given,
because the speed of that server says nothing about Redis.

With few names, the goroutines compete for the same locks. A hand-off is an
acquisition by a goroutine other than the previous holder. Most hand-offs happen
inside the process, without the server. (With several --processes, bench does
not count it as a hand-off when a lock returns from another process to the same
goroutine.) Bench counts the commands that it sends: scripts, waits for
replicas, and subscriptions per channel. It does not use the server's counters,
because these include the commands of other clients.

  --kind mutex, fair, fenced   one holder at a time
  --kind rw                    nine of ten acquisitions are reads

With --json, it prints one document:

  server         node, version, embedded
  kind, names, goroutines, processes     the settings
  tookMs         duration of the measurement
  locks          latencies of the acquisitions: count, perSecond, p50Ms, p90Ms,
                 p99Ms, maxMs
  floor          the same for empty scripts
  histogram      list of latency classes, each with belowMs and count
  handoffs       number of hand-offs; null if the kind has none
  handoffsWithoutServer                  hand-offs inside the process
  scripts, subscriptions, messages       sent to and received from the server
  commandsPerLock, commandsPerHandoff    scripts and subscriptions per lock or
                                         hand-off`,
		Example: `  holdfast bench
  holdfast bench --server real                             # starts a server
  holdfast bench --kind fair --goroutines 64 --for 10s
  holdfast bench --names 1000 --processes 4 --json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              interruptible(func(ctx context.Context, _ []string) error { return b.run(ctx) }),
	}
	f := cmd.Flags()
	serverFlag(cmd, &b.mode, "start this kind of server and stop it at the end")
	f.Var(&b.kind, "kind", "kind of lock")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(benchKindNames, cobra.ShellCompDirectiveNoFileComp))
	f.DurationVar(&b.time, "for", 5*time.Second, "duration of the measurement")
	f.IntVar(&b.goroutines, "goroutines", 16, "number of goroutines in each process")
	f.IntVar(&b.processes, "processes", 1, "number of processes")
	f.IntVar(&b.names, "names", 1, "number of locks that the goroutines share")
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
	switch {
	case err != nil:
		return err
	case b.time < 100*time.Millisecond || b.time > time.Hour:
		return usage("--for is %v: it must be between 100ms and 1h", b.time)
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
	if errors.Is(err, holdfast.ErrUnavailable) && !b.target.named() {
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
	names := make([]string, b.names)
	prefix := b.prefix + rand.Text()
	for i := range names {
		names[i] = fmt.Sprint(prefix, ":", i)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if err := b.kind.remove(ctx, client.Driver(), names); err != nil {
			fmt.Fprintf(b.notices(), "Some keys with %s in their names may remain on the server: %s\n", prefix, harmless(err.Error()))
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

// remove deletes the keys of the locks. These are the counter of a fenced mutex,
// which outlives the lock because tokens must keep rising, and the hold and the
// queue entry of a worker that was killed.
func (k benchKind) remove(ctx context.Context, d driver.Driver, names []string) error {
	script := driver.NewScript("bench_remove", "return redis.call('DEL', unpack(KEYS))")
	for _, n := range names {
		keys := []string{n}
		for _, prefix := range benchKinds[k].extraKeys {
			keys = append(keys, prefix+":{"+n+"}")
		}
		if _, err := d.Do(ctx, driver.Call{Script: script, Keys: keys}); err != nil {
			return err
		}
	}
	return nil
}

// floor measures empty scripts.
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

// load runs the job in this process, or in several worker processes.
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

// progress shows a progress line until end is called.
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

// Command peers measures Holdfast beside other lock libraries for Go, on a server of its
// own.
//
// Each client has its own connections, as each pod would have. The clients are spread over
// at most eight processes. While they compete, a word in memory that all processes share
// says which goroutine is inside the critical section. A goroutine that enters while another
// one is inside is a violation, unless both only read. A rate limiter has one if it grants
// more than its rate. If Holdfast has one, the program exits with status 1. The scenarios
// one, reader, multi, wakeup and held have no such check.
//
// All libraries are measured in turn, several times, so that noise hits all alike. The
// tables have medians. A ratio is the median of the ratios of all rounds. Compare ratios
// within one run only.
//
// It is run by make bench-peers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// errViolated is returned if Holdfast let two goroutines in, or granted too many permits.
var errViolated = errors.New("peers: Holdfast has granted a lock to two goroutines at the same time, or too many permits")

type settings struct {
	scenarios, locks []string // empty: all
	reps             int
	window           time.Duration
	json, svg        string  // files
	baseline         results // nil: none
}

func main() {
	if work := workers[redistest.WorkerName()]; work != nil {
		work()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	return within(func(scope *scope) error {
		return s.run(ctx, newBench(scope, s.window), w)
	})
}

// parse reads the flags.
func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	var known, names []string
	for _, s := range scenarios {
		known = append(known, s.name)
	}
	for _, l := range libraries {
		names = append(names, l.name)
	}
	which := flags.String("scenario", "", "comma-separated `scenarios`: "+strings.Join(known, ",")+" (default all)")
	locks := flags.String("locks", "", "comma-separated `locks`: "+strings.Join(names, ",")+" (default all)")
	seconds := flags.Float64("time", 1, "`seconds` per measurement")
	flags.IntVar(&s.reps, "reps", 3, "`number` of measurements, of which the median counts")
	flags.StringVar(&s.json, "json", "", "write all measurements to this `file`")
	baseline := flags.String("baseline", "", "also print the ratios to an earlier run with the same -time, which -json has written to this `file`")
	flags.StringVar(&s.svg, "svg", "", "write a chart of the scenario crowd to this `file`")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.window = time.Duration(*seconds * float64(time.Second))
	if s.scenarios, err = choose(*which, known); err != nil {
		return s, err
	}
	if s.locks, err = choose(*locks, names); err != nil {
		return s, err
	}
	if s.window < 10*time.Millisecond || s.reps < 1 || flags.NArg() > 0 {
		return s, errors.New("peers: -time is at least 0.01, -reps at least 1, and there are no arguments")
	}
	if *baseline != "" {
		s.baseline, err = earlier(*baseline)
	}
	return s, err
}

// earlier reads the rows of an earlier run.
func earlier(file string) (results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("peers: -baseline: %w", err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("peers: -baseline: %s: %w", file, err)
	}
	if len(d.Rows) == 0 || slices.Contains(d.Rows, nil) {
		return nil, fmt.Errorf("peers: -baseline: %s has no measurements: write it with -json", file)
	}
	return d.Rows, nil
}

// choose returns the items of a list. Each must be known.
func choose(list string, known []string) ([]string, error) {
	if list == "" {
		return known, nil
	}
	items := strings.Split(list, ",")
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
		if !slices.Contains(known, items[i]) {
			return nil, fmt.Errorf("peers: %q is unknown: choose from %s", items[i], strings.Join(known, ", "))
		}
	}
	return items, nil
}

// run measures and reports.
func (s settings) run(ctx context.Context, b *bench, w io.Writer) error {
	var rs results
	version := serverVersion(b)
	fmt.Fprintf(w, "%s, %s, %d CPUs for server and clients, medians of %d, one measurement of held and idle\n", version, runtime.Version(), runtime.NumCPU(), s.reps)
	violated := false
	for _, sc := range scenarios {
		if !slices.Contains(s.scenarios, sc.name) {
			continue
		}
		points := []point{{}}
		if sc.points != nil {
			points = sc.points(b)
		}
		reps := s.reps
		if sc.reps > 0 {
			reps = min(reps, sc.reps)
		}
		for range reps {
			for _, p := range points {
				for _, name := range sc.locks {
					if !slices.Contains(s.locks, name) {
						continue
					}
					l := find(name)
					f, err := sc.run(b, ctx, l, p)
					if err != nil {
						err = fmt.Errorf("%s: %s, n = %d: %w", sc.name, name, p.n, err)
						if l.ours || l.floor || ctx.Err() != nil {
							return err
						}
						fmt.Fprintf(w, "\nleft out: %v\n", err)
						continue
					}
					r := rs.at(sc.name, name, p)
					r.Measured = append(r.Measured, f)
					r.Violation += int(f[violations])
					violated = violated || l.ours && f[violations] > 0
				}
			}
		}
		rs.table(w, sc)
	}
	targets := rs.targets()
	writeTargets(w, targets)
	if s.baseline != nil {
		rs.compare(w, s.baseline)
	}
	if s.svg != "" {
		if err := os.WriteFile(s.svg, rs.chart(), 0o644); err != nil {
			return err
		}
	}
	if s.json != "" {
		text, err := json.MarshalIndent(document{time.Now().UTC(), version, runtime.Version(), runtime.NumCPU(), rs, targets}, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if violated {
		return errViolated
	}
	return nil
}

// serverVersion returns the name and version of the server.
func serverVersion(b *bench) string {
	text, _ := b.server.Do(b.scope, "INFO", "server").(string)
	name, version := "Redis", "?"
	for row := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(row), ":"); key {
		case "redis_version":
			if name == "Redis" {
				version = value
			}
		case "valkey_version":
			name, version = "Valkey", value
		}
	}
	return name + " " + version
}

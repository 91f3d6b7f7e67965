package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/internal/display"
	"github.com/holdfast-go/holdfast/internal/load"
)

// A benchReport is the output of bench.
type benchReport struct {
	Server     benchServer    `json:"server"`
	Kind       benchKind      `json:"kind"`
	Names      int            `json:"names"`
	Goroutines int            `json:"goroutines"` // 0 with a crowd
	Crowd      int            `json:"crowd"`      // 0 without
	Processes  int            `json:"processes"`
	HoldMs     float64        `json:"holdMs"`
	TookMs     float64        `json:"tookMs"`
	Granted    benchLatency   `json:"grantedByServer"`
	Passed     benchLatency   `json:"passedInProcess"`
	Locks      benchLatency   `json:"locks"` // both
	Floor      benchLatency   `json:"floor"`
	Histogram  []benchBucket  `json:"histogram"` // of locks
	Handoffs   *benchHandoffs `json:"handoffs"`  // nil: the kind has none
	Requests   benchRequests  `json:"requests"`
	Messages   int64          `json:"messages"`
	Jain       float64        `json:"jainIndex"`
	LongestMs  float64        `json:"longestWaitMs"`
	Warnings   []string       `json:"warnings"`
}

type benchHandoffs struct {
	Count         int64   `json:"count"`
	ThroughServer int64   `json:"throughServer"`
	InProcess     int64   `json:"inProcess"`
	PerSecond     float64 `json:"throughServerPerSecond"`
}

type benchRequests struct {
	Scripts       int64    `json:"scripts"`
	Subscriptions int64    `json:"subscriptions"`
	PerLock       *float64 `json:"perLock"`
	PerGrant      *float64 `json:"perServerGrant"`
	PerHandoff    *float64 `json:"perServerHandoff"`
}

type benchServer struct {
	Node     string `json:"node"`
	Version  string `json:"version"`
	Embedded bool   `json:"embedded"`
}

type benchLatency struct {
	Count     int64   `json:"count"`
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50Ms"`
	P90       float64 `json:"p90Ms"`
	P99       float64 `json:"p99Ms"`
	Max       float64 `json:"maxMs"`
}

type benchBucket struct {
	BelowMs float64 `json:"belowMs"`
	Count   int64   `json:"count"`
	below   time.Duration
}

func newBenchLatency(h load.Histogram, took time.Duration) benchLatency {
	at := func(percentile float64) float64 { return float64(h.Percentile(percentile)) / 1e6 }
	if h.Count == 0 {
		return benchLatency{}
	}
	return benchLatency{h.Count, float64(h.Count) / took.Seconds(), at(50), at(90), at(99), at(100)}
}

// report returns the report of a result. The caller sets Server.
func (b *bench) report(r benchResult, floor benchLatency) *benchReport {
	var locks load.Histogram
	locks.Merge(r.waits.Granted)
	locks.Merge(r.waits.Passed)
	per := func(n int64) *float64 {
		if n == 0 {
			return nil
		}
		each := float64(r.scripts+r.subscriptions) / float64(n)
		return &each
	}
	report := &benchReport{
		Kind: b.kind, Names: b.names, Goroutines: b.goroutines, Crowd: b.crowd, Processes: b.processes,
		HoldMs: milliseconds(b.hold), TookMs: milliseconds(r.Took),
		Granted: newBenchLatency(r.waits.Granted, r.Took), Passed: newBenchLatency(r.waits.Passed, r.Took), Locks: newBenchLatency(locks, r.Took),
		Floor: floor, Histogram: benchBuckets(locks),
		Requests: benchRequests{r.scripts, r.subscriptions, per(locks.Count), per(r.waits.Granted.Count), nil},
		Messages: r.messages, Jain: load.Jain(r.Shares), LongestMs: milliseconds(r.Longest), Warnings: append([]string{}, r.waits.Notes...), // not null in JSON
	}
	if b.crowd > 0 {
		report.Goroutines = 0
	}
	if benchKinds[b.kind].shared == nil {
		through := r.Handoffs - r.PassedHandoffs
		report.Handoffs = &benchHandoffs{r.Handoffs, through, r.PassedHandoffs, float64(through) / r.Took.Seconds()}
		report.Requests.PerHandoff = per(through)
	}
	return report
}

// benchBuckets returns a histogram in steps of 1, 2 and 5, without empty buckets
// at both ends.
func benchBuckets(h load.Histogram) (buckets []benchBucket) {
	var before int64
	for unit := time.Microsecond; unit < 100*time.Second && before < h.Count; unit *= 10 {
		for _, factor := range []time.Duration{1, 2, 5} {
			below := unit * factor
			n := h.Below(below) - before
			if before += n; n > 0 || len(buckets) > 0 && before < h.Count {
				buckets = append(buckets, benchBucket{milliseconds(below), n, below})
			}
		}
	}
	return buckets
}

// show prints the report as text.
func (r *benchReport) show(s *term.Screen) {
	say := func(format string, args ...any) { _, _ = io.WriteString(s, s.Wrap(fmt.Sprintf(format, args...), "  ")) }
	say("%s\n\n", s.Paint(term.Bold, r.headline()))
	version := cmp.Or(term.Quote(r.Server.Version, 20), "of unknown version") // INFO may be forbidden
	say("%s, %s of kind %s, %.1f s, server %s at %s\n\n",
		r.load(), plural(r.Names, "name"), r.Kind, r.TookMs/1000, version, term.Quote(r.Server.Node, 60))
	r.showLatencies(s)
	say("%s", r.requests())
	what, where := "goroutines", ""
	if r.Crowd > 0 {
		what = "clients"
	}
	say("Jain's index over the %s: %.2f (1: equal). Longest wait: %s\n", what, r.Jain, benchTime(r.LongestMs))
	if r.Processes > 1 && !load.Sharing {
		where = " inside each process"
	}
	say("Exclusion was checked%s: no two owners held a lock at the same time.\n", where)
	for _, w := range r.Warnings {
		say("%s\n", s.Paint(term.Yellow, "Warning: "+harmless(w)+"."))
	}
	if r.Server.Embedded {
		say("%s\n", s.Paint(term.Yellow, "This was an embedded server: its speed says nothing about Redis."))
	}
}

// headline says what was measured. Its first number is that of locks that the server
// has granted.
func (r *benchReport) headline() string {
	perSecond := func(f float64) string { return display.Thousands(int64(f)) }
	text := "The server granted " + perSecond(r.Granted.PerSecond) + " locks per second"
	if r.Crowd > 0 {
		text += fmt.Sprintf(" to a crowd of %d clients", r.Crowd)
	}
	text += "."
	switch {
	case r.Crowd > 0 && r.Requests.PerHandoff != nil:
		text += fmt.Sprintf("\nOf these, %s per second were hand-offs to another client, with %.2f requests each.", perSecond(r.Handoffs.PerSecond), *r.Requests.PerHandoff)
	case r.Passed.Count > 0:
		text += fmt.Sprintf("\nAnother %s per second (%.0f %% of all) were passed on inside %s, without the server.",
			perSecond(r.Passed.PerSecond), 100*float64(r.Passed.Count)/float64(r.Locks.Count), r.process())
	}
	return text
}

// process is what a lock is passed on in.
func (r *benchReport) process() string {
	if r.Processes > 1 {
		return "a process"
	}
	return "the process"
}

// load describes the load.
func (r *benchReport) load() string {
	switch {
	case r.Crowd > 0 && r.Processes > 1:
		return fmt.Sprintf("%d clients that share nothing, in %d processes", r.Crowd, r.Processes)
	case r.Crowd > 0:
		return fmt.Sprintf("%d clients that share nothing", r.Crowd)
	case r.Processes > 1:
		return fmt.Sprintf("%d processes, each with %s that share a client", r.Processes, plural(r.Goroutines, "goroutine"))
	}
	return plural(r.Goroutines, "goroutine") + " that share a client"
}

func (r *benchReport) showLatencies(s *term.Screen) {
	floor := "empty scripts"
	if r.Crowd > 0 {
		floor += ", serial"
	}
	table := term.Table{Titles: []string{"", " COUNT", " PER SECOND", " P50 ms", " P90 ms", " P99 ms", " MAX ms"}}
	for _, row := range []struct {
		what string
		benchLatency
	}{{"granted by the server", r.Granted}, {"passed in " + r.process(), r.Passed}, {floor, r.Floor}} {
		if row.Count > 0 {
			table.Add(row.what, display.Thousands(row.Count), display.Thousands(int64(row.PerSecond)), benchDigits(row.P50), benchDigits(row.P90), benchDigits(row.P99), benchDigits(row.Max))
		}
	}
	table.Write(s)
	fmt.Fprint(s, "\nTime to acquire a lock:\n")
	var most int64
	for _, b := range r.Histogram {
		most = max(most, b.Count)
	}
	for _, b := range r.Histogram {
		bar := strings.Repeat("█", int(40*b.Count/most))
		if bar == "" && b.Count > 0 {
			bar = "▏"
		}
		fmt.Fprintf(s, "  < %-6s %5.1f %%  %s\n", b.below, 100*float64(b.Count)/float64(r.Locks.Count), s.Paint(term.Green, bar))
	}
	fmt.Fprintln(s)
}

// requests says how many requests there were.
func (r *benchReport) requests() string {
	var b strings.Builder
	q := r.Requests
	fmt.Fprintf(&b, "Requests: %s, %s; %s received\n",
		plural(int(q.Scripts), "script"), plural(int(q.Subscriptions), "subscription"), plural(int(r.Messages), "message"))
	if q.PerGrant != nil {
		fmt.Fprintf(&b, "  %.2f per lock that the server granted", *q.PerGrant)
		if r.Passed.Count > 0 {
			fmt.Fprintf(&b, ", %.2f per lock in all", *q.PerLock)
		}
		b.WriteByte('\n')
	}
	if h := r.Handoffs; h != nil {
		fmt.Fprintf(&b, "Hand-offs: %s through the server (%s per second)", display.Thousands(h.ThroughServer), display.Thousands(int64(h.PerSecond)))
		if h.InProcess > 0 {
			fmt.Fprintf(&b, ", %s inside %s", display.Thousands(h.InProcess), r.process())
		}
		b.WriteByte('\n')
		if q.PerHandoff != nil {
			fmt.Fprintf(&b, "  %.2f requests per hand-off through the server\n", *q.PerHandoff)
		}
	}
	return b.String()
}

func benchTime(ms float64) string { return fmt.Sprintf("%.3f ms", ms) }

// benchDigits formats milliseconds for a column: the longer, the fewer decimals.
func benchDigits(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.3f", ms)
	case ms < 100:
		return fmt.Sprintf("%.2f", ms)
	case ms < 1000:
		return fmt.Sprintf("%.1f", ms)
	}
	return display.Thousands(int64(ms))
}

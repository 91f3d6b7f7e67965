package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// A benchReport is the output of bench.
type benchReport struct {
	Server        benchServer   `json:"server"`
	Kind          benchKind     `json:"kind"`
	Names         int           `json:"names"`
	Goroutines    int           `json:"goroutines"`
	Processes     int           `json:"processes"`
	TookMs        float64       `json:"tookMs"`
	Locks         benchLatency  `json:"locks"`
	Floor         benchLatency  `json:"floor"`
	Histogram     []benchBucket `json:"histogram"`
	Handoffs      *int64        `json:"handoffs"`
	Passed        *int64        `json:"handoffsWithoutServer"`
	Scripts       int64         `json:"scripts"`
	Subscriptions int64         `json:"subscriptions"`
	Messages      int64         `json:"messages"`
	PerLock       float64       `json:"commandsPerLock"`
	PerHandoff    *float64      `json:"commandsPerHandoff"`
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

func newBenchLatency(h *hdrhistogram.Histogram, took time.Duration) benchLatency {
	at := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1e6 }
	return benchLatency{h.TotalCount(), float64(h.TotalCount()) / took.Seconds(), at(50), at(90), at(99), float64(h.Max()) / 1e6}
}

// report returns the report of a result. The caller sets Server.
func (b *bench) report(r benchResult, floor benchLatency) *benchReport {
	h := hdrhistogram.Import(r.Latency)
	commands := float64(r.Calls.Scripts + r.Calls.Subscriptions)
	report := &benchReport{
		Kind: b.kind, Names: b.names, Goroutines: b.goroutines, Processes: b.processes, TookMs: milliseconds(r.Took),
		Locks: newBenchLatency(h, r.Took), Floor: floor, Histogram: benchBuckets(h),
		Scripts: r.Calls.Scripts, Subscriptions: r.Calls.Subscriptions, Messages: r.Calls.Messages,
		PerLock: commands / float64(max(r.Locks, 1)),
	}
	if !benchKinds[b.kind].shared {
		each := commands / float64(max(r.Handoffs, 1))
		report.Handoffs, report.Passed, report.PerHandoff = &r.Handoffs, &r.Passed, &each
	}
	return report
}

// benchBuckets returns a histogram in steps of 1, 2 and 5, without empty buckets
// at both ends.
func benchBuckets(h *hdrhistogram.Histogram) (buckets []benchBucket) {
	bars := h.Distribution()
	for unit := time.Microsecond; unit < 100*time.Second; unit *= 10 {
		for _, factor := range []time.Duration{1, 2, 5} {
			below := unit * factor
			var n int64
			for len(bars) > 0 && bars[0].From < int64(below) {
				n += bars[0].Count
				bars = bars[1:]
			}
			if n > 0 || len(buckets) > 0 {
				buckets = append(buckets, benchBucket{milliseconds(below), n, below})
			}
		}
	}
	for len(buckets) > 0 && buckets[len(buckets)-1].Count == 0 {
		buckets = buckets[:len(buckets)-1]
	}
	return buckets
}

// show prints the report as text.
func (r *benchReport) show(s *term.Screen) {
	fmt.Fprintf(s, "%s on %s of kind %s for %.1f s, server %s at %s\n\n",
		plural(r.Goroutines*r.Processes, "goroutine"), plural(r.Names, "name"), r.Kind, r.TookMs/1000, term.Quote(r.Server.Version, 20), term.Quote(r.Server.Node, 60))
	table := term.Table{Titles: []string{"", " COUNT", " PER SECOND", " P50", " P90", " P99", " MAX"}}
	for _, row := range []struct {
		what string
		benchLatency
	}{{"locks", r.Locks}, {"empty scripts", r.Floor}} {
		table.Add(row.what, term.Thousands(row.Count), term.Thousands(int64(row.PerSecond)), benchTime(row.P50), benchTime(row.P90), benchTime(row.P99), benchTime(row.Max))
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
	fmt.Fprintf(s, "\n%.2f commands per lock (%s, %s; %s received)\n", r.PerLock,
		plural(int(r.Scripts), "script"), plural(int(r.Subscriptions), "subscription"), plural(int(r.Messages), "message"))
	if r.Handoffs != nil {
		fmt.Fprintf(s, "%.2f commands per hand-off (%s, %.0f %% without the server)\n",
			*r.PerHandoff, plural(int(*r.Handoffs), "hand-off"), 100*float64(*r.Passed)/float64(max(*r.Handoffs, 1)))
	}
	if r.Server.Embedded {
		fmt.Fprintln(s, s.Paint(term.Yellow, "This was an embedded server: its speed says nothing about Redis."))
	}
}

func benchTime(ms float64) string { return fmt.Sprintf("%.3f ms", ms) }

package soak_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A report is what a soak has found so far.
type report struct {
	Topology string
	Seed     uint64
	Start    time.Time
	Length   time.Duration
	Rounds   int // that have begun
	dir      string
	file     string
	figures  figures
	memory   []int64 // after each round that was judged
	findings strings.Builder
	count    int
}

// newReport returns a report with what the environment says.
func newReport(t *testing.T, hours float64) *report {
	r := &report{
		Topology: os.Getenv("HOLDFAST_SOAK_TOPOLOGY"), Seed: rand.Uint64() % 1_000_000, file: os.Getenv("HOLDFAST_SOAK_REPORT"),
		Start: time.Now(), Length: time.Duration(hours * float64(time.Hour)), figures: newFigures(),
	}
	if r.Topology == "" {
		r.Topology = "single"
	}
	if topologies[r.Topology] == nil {
		t.Fatalf("HOLDFAST_SOAK_TOPOLOGY is %q: choose one of %v", r.Topology, slices.Sorted(maps.Keys(topologies)))
	}
	if text := os.Getenv("HOLDFAST_SOAK_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("HOLDFAST_SOAK_SEED: %v", err)
		}
		r.Seed = seed
	}
	if r.file == "" {
		r.file = filepath.Join(os.TempDir(), "soak-"+r.Topology+".md")
	}
	r.dir = strings.TrimSuffix(r.file, ".md") + "-records"
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	t.Logf("topology %s, seed %d, %v, report in %s", r.Topology, r.Seed, r.Length, r.file)
	return r
}

// round runs a round. Its records stay if there are findings.
func (r *report) round(t *testing.T, g *rig, length time.Duration) {
	n := r.Rounds
	dir := filepath.Join(r.dir, fmt.Sprint("round", n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.Rounds++
	of := round{rig: g, number: n, seed: roundSeed(r.Seed, n), length: length, users: 4, dir: dir}
	found, f, records := of.run(t)
	r.add(t, of, found, f, records)
	if len(found) == 0 {
		os.RemoveAll(dir)
	}
}

// add adds a round. Each finding fails the test.
func (r *report) add(t *testing.T, of round, found []finding, f figures, records []record) {
	r.figures.add(f)
	r.memory = append(r.memory, f.Memory)
	const most = 20 // timelines
	for _, x := range found {
		t.Errorf("%v", x)
		if r.count++; r.count <= most {
			fmt.Fprintf(&r.findings, "\n### %s in round %d (seed %d)\n\n`%s`: %s\n\n```\n%s```\n", x.Promise, of.number, of.seed, x.Name, x.Text, timeline(records, x.Name, x.At))
		}
	}
	t.Logf("%d calls, %d grants, longest wait %v, free and wanted for %v at most", f.Calls, f.Grants, f.LongestWait, f.LongestFree)
}

// write writes the report.
func (r *report) write(t *testing.T) {
	f := r.figures
	var b strings.Builder
	fmt.Fprintf(&b, "# Soak: %s\n\nSeed %d, begun %s, %v of %v, %d rounds.\n\n", r.Topology, r.Seed, r.Start.UTC().Format(time.DateTime),
		time.Since(r.Start).Round(time.Second), r.Length, len(r.memory))
	switch {
	case len(r.memory) < r.Rounds:
		b.WriteString("**The last round did not come to its end:** see the output of the test.\n")
	case r.count == 0 && len(r.memory) > 0:
		b.WriteString("**No promise was broken.**\n")
	}
	if r.count > 0 {
		fmt.Fprintf(&b, "**%d findings.** Their records are in `%s`.\n", r.count, filepath.Base(r.dir))
	}
	row := func(what string, value any) { fmt.Fprintf(&b, "| %s | %v |\n", what, value) }
	b.WriteString("\n| | |\n|---|---|\n")
	row("calls", f.Calls)
	row("grants", f.Grants)
	row("grants after a wait of more than "+moment.String(), f.Waits)
	row("longest wait that ended with a grant", f.LongestWait.Round(time.Millisecond))
	row("longest time that something was free, wanted and within reach", f.LongestFree.Round(time.Millisecond))
	row("latest end of a context, after the deadline of its lease", f.LongestTold.Round(time.Microsecond))
	row("time without a processor, all processes and servers", f.Starved.Round(time.Millisecond))
	row("longest such time", f.Stalled.Round(time.Millisecond))
	row("memory of the masters after each round, in bytes", fmt.Sprint(r.memory))
	for _, part := range []struct {
		what   string
		counts map[string]int
	}{{"Grants", f.Kinds}, {"Faults", f.Faults}, {"Losses", f.Losses}, {"Errors of calls", f.Errors}, {"Errors of releases", f.Releases}} {
		fmt.Fprintf(&b, "\n## %s\n\n| | |\n|---|---|\n", part.what)
		for _, name := range slices.Sorted(maps.Keys(part.counts)) {
			row(name, part.counts[name])
		}
	}
	if r.count > 0 {
		fmt.Fprintf(&b, "\n## Findings\n%s", r.findings.String())
	}
	err := os.MkdirAll(filepath.Dir(r.file), 0o700)
	if err == nil {
		err = os.WriteFile(r.file, []byte(b.String()), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

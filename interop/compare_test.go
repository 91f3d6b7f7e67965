package interop_test

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/load"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A workload is a task for both libraries, with the figures to print.
type workload struct {
	name    string
	figures []string
	measure func(tb testing.TB, c contender, s *redistest.Server, d time.Duration) []float64
}

var workloads = []workload{
	{"uncontended: one thread, one name", []string{"pairs/s", "p50 µs", "p99 µs"}, func(tb testing.TB, c contender, s *redistest.Server, d time.Duration) []float64 {
		all := c.Run(tb, s, 1, 1, []string{"compare:alone"}, d)
		pairs := spent(all, func(v turn) int64 { return v.Entered - v.Asked + v.Done - v.Left })
		return []float64{rate(all), micros(pairs, 50), micros(pairs, 99)}
	}},
	{"own names: 64 threads, one process", []string{"pairs/s", "p99 µs"}, func(tb testing.TB, c contender, s *redistest.Server, d time.Duration) []float64 {
		all := c.Run(tb, s, 1, 64, many("compare:own:", 64), d)
		return []float64{rate(all), micros(spent(all, func(v turn) int64 { return v.Entered - v.Asked + v.Done - v.Left }), 99)}
	}},
	{"hot name: 16 threads, one process", hotFigures, hot(1, 16)},
	{"hot name: 4 processes of 4 threads", hotFigures, hot(4, 4)},
	{"held: 1,000 locks", []string{"commands per period"}, func(tb testing.TB, c contender, s *redistest.Server, d time.Duration) []float64 {
		const watchdog = 6 * time.Second // a machine may stall for two seconds
		held := many(fmt.Sprint("compare:held:", names.Add(1), ":"), 1000)
		defer c.Hold(tb, s, held, watchdog)()
		s.Do(tb, "CONFIG", "RESETSTAT")
		periods := max(2, 2*d/(watchdog/3))
		time.Sleep(periods * watchdog / 3)
		sent := commands(tb, s)
		for _, n := range held {
			if s.Int(tb, "EXISTS", n) == 0 {
				tb.Error("not held any more: ", n)
			}
		}
		return []float64{float64(sent) / float64(periods)}
	}},
}

var hotFigures = []string{"pairs/s", "commands/pair", "Jain's index", "longest wait ms"}

func hot(processes, threads int) func(testing.TB, contender, *redistest.Server, time.Duration) []float64 {
	return func(tb testing.TB, c contender, s *redistest.Server, d time.Duration) []float64 {
		s.Do(tb, "CONFIG", "RESETSTAT")
		all := c.Run(tb, s, processes, threads, []string{"compare:hot"}, d)
		sent, pairs := commands(tb, s), 0
		var counts []int
		for _, vs := range all {
			counts = append(counts, len(vs))
			pairs += len(vs)
		}
		waits := spent(all, func(v turn) int64 { return v.Entered - v.Asked })
		return []float64{rate(all), float64(sent) / float64(pairs), load.Jain(counts), micros(waits, 100) / 1000}
	}
}

// many returns names with a common prefix.
func many(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// rate returns the number of turns per second.
func rate(all [][]turn) float64 {
	n, first, last := 0, int64(1<<62), int64(0)
	for _, vs := range all {
		n += len(vs)
		for _, v := range vs {
			first, last = min(first, v.Asked), max(last, v.Done)
		}
	}
	return float64(n) / time.Duration(last-first).Seconds()
}

// spent returns the durations of a part of each turn.
func spent(all [][]turn, part func(turn) int64) (times []int64) {
	for _, vs := range all {
		for _, v := range vs {
			times = append(times, part(v))
		}
	}
	return times
}

func micros(times []int64, percentile int) float64 {
	if len(times) == 0 {
		return math.NaN() // a contender made no progress
	}
	return float64(load.Percentile(times, percentile)) / 1000
}

// commands returns how many commands clients have sent since the statistics were reset.
// Commands inside scripts do not count.
func commands(tb testing.TB, s *redistest.Server) int64 {
	tb.Helper()
	u, err := load.UsageOf(func(section string) (any, error) { return s.Try("INFO", section) })
	if err != nil {
		tb.Fatal(err)
	}
	return u.Requests
}

// BenchmarkSideBySide prints Holdfast and Redisson in one table. They run alternately on
// one server. The figures are medians of three runs.
func BenchmarkSideBySide(b *testing.B) {
	for b.Loop() {
		sideBySide(b, os.Stdout, 3, 3*time.Second)
	}
	b.ReportMetric(0, "ns/op")
}

// The benchmark produces figures.
func TestSideBySide(t *testing.T) {
	var out strings.Builder
	sideBySide(t, &out, 1, 100*time.Millisecond)
	t.Log("\n" + out.String())
	for _, w := range workloads {
		if !strings.Contains(out.String(), w.name) {
			t.Errorf("%s is missing", w.name)
		}
	}
}

// sideBySide runs all workloads and prints the results.
func sideBySide(tb testing.TB, to io.Writer, rounds int, d time.Duration) {
	java, ours := &javaFleet, holdfasts{}
	contenders := []contender{ours, holdfasts{holdfast.Options{Handoffs: -1}}, java}
	s := redistest.Start(tb)
	java.Run(tb, s, 4, 4, many("compare:warm-up:", 16), 2*d)

	rows := [][]string{{"workload", "figure", "Holdfast", "without hand-offs", "Redisson"}}
	for _, w := range workloads {
		results := make(map[[2]int][]float64) // by contender and figure
		for range rounds {
			for i, c := range contenders {
				for f, value := range w.measure(tb, c, s, d) {
					results[[2]int{i, f}] = append(results[[2]int{i, f}], value)
				}
			}
		}
		for f, title := range w.figures {
			row := []string{w.name, title}
			for i := range contenders {
				value, _ := load.Median(results[[2]int{i, f}])
				row = append(row, figure(value))
			}
			rows = append(rows, row)
		}
	}
	printTable(to, rows)
	printTable(to, wakeUps(tb, s, ours, java, rounds*int(d/(30*time.Millisecond))))
}

// wakeUps measures the time from a release in one process to the grant in another, for
// all combinations of the sides.
func wakeUps(tb testing.TB, s *redistest.Server, ours holdfasts, java *redissons, rounds int) [][]string {
	sides := map[string]contender{"Go": ours, "Java": java}
	rows := [][]string{{"released by", "waited for by", "p50 µs", "p99 µs"}}
	for _, from := range slices.Sorted(maps.Keys(sides)) {
		for _, to := range slices.Sorted(maps.Keys(sides)) {
			n := fmt.Sprint("compare:wake:", from, to)
			first, second := sides[from].Party(tb, s, n), sides[to].Party(tb, s, n)
			var took []int64
			for range rounds {
				first.Lock(tb, 0)
				entered := make(chan int64, 1)
				go func() { entered <- second.Lock(tb, 0) }()
				time.Sleep(10 * time.Millisecond) // the waiter waits by now
				left := first.Unlock(tb)
				took = append(took, <-entered-left)
				second.Unlock(tb)
			}
			rows = append(rows, []string{from, to, figure(micros(took, 50)), figure(micros(took, 99))})
		}
	}
	return rows
}

// printTable prints rows as Markdown. The first row is the header.
func printTable(to io.Writer, rows [][]string) {
	load.Table(to, rows)
	fmt.Fprintln(to)
}

// figure formats a number with decimals that fit its size.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

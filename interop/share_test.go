package interop_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A mixedLoad is a lock that four processes of each side use.
type mixedLoad struct {
	name    string
	kind    string
	threads int           // in each process
	hold    time.Duration // how long each turn lasts
	options holdfast.Options
}

// sideProcesses is the number of processes of each side.
const sideProcesses = 4

// A sideResult is what one side got of a lock.
type sideResult struct {
	turns   int
	share   float64       // 1 is an equal share
	longest time.Duration // the longest wait
	passed  []int         // how many turns others took during each wait, sorted
}

// between returns how many turns others took during a wait: in the middle, and at most.
func (r sideResult) between() (median, most int) {
	if len(r.passed) == 0 {
		return 0, 0
	}
	return r.passed[len(r.passed)/2], r.passed[len(r.passed)-1]
}

func (r sideResult) String() string {
	median, most := r.between()
	return fmt.Sprintf("%d turns, share %.2f, longest wait %v, turns of others during a wait %d, at most %d",
		r.turns, r.share, r.longest.Round(time.Millisecond), median, most)
}

// run uses the lock for d, or for so many turns of each thread. It returns an error if two
// threads held the lock at the same time.
func (l mixedLoad) run(tb testing.TB, s *redistest.Server, d time.Duration, turns int) (ofJava, ofGo sideResult, took time.Duration, err error) {
	tb.Helper()
	t := task{Kind: l.kind, Names: []string{name(tb)}, Hold: l.hold, Time: d, Turns: turns}
	startJava := javaFleet.Prepare(tb, s, sideProcesses, l.threads, t)
	startGo := holdfasts{l.options}.Prepare(tb, s, sideProcesses, l.threads, t)
	resultOfJava, resultOfGo := startJava(), startGo()
	sides := [][][]turn{nil, resultOfGo()}
	if l.kind == "write" {
		defer wakeWriters(tb, s, t.Names[0])()
	}
	sides[0] = resultOfJava()

	// Only turns count that were taken while all threads of both sides were active.
	from, to := int64(0), int64(1<<62)
	var all []redistest.Interval
	var entries []int64
	for side, threads := range sides {
		for thread, turns := range threads {
			from, to = max(from, turns[0].Asked), min(to, turns[len(turns)-1].Done)
			for _, v := range turns {
				all = append(all, redistest.Interval{Name: t.Names[0], Owner: fmt.Sprint(side, " ", thread), Enter: v.Entered, Leave: v.Left})
				entries = append(entries, v.Entered)
			}
		}
	}
	slices.Sort(entries)
	before := func(at int64) int { n, _ := slices.BinarySearch(entries, at); return n }
	var results [2]sideResult
	total := 0
	for i, threads := range sides {
		for _, turns := range threads {
			for _, v := range turns {
				results[i].longest = max(results[i].longest, time.Duration(v.Entered-v.Asked))
				if from <= v.Entered && v.Entered < to {
					results[i].turns++
					total++
				}
				if from <= v.Asked && v.Asked < to {
					results[i].passed = append(results[i].passed, before(v.Entered)-before(v.Asked))
				}
			}
		}
	}
	for i := range results {
		slices.Sort(results[i].passed)
		results[i].share = 2 * float64(results[i].turns) / float64(max(total, 1))
	}
	return results[0], results[1], time.Duration(to - from), redistest.CheckExclusive(all)
}

// wakeWriters takes and releases a write lock from time to time until stop is called. A Java
// thread can miss the message of a Java writer, and sleeps until the next one
// (docs/from-redisson.md). After the last turn of the other processes there would be none.
func wakeWriters(tb testing.TB, s *redistest.Server, name string) (stop func()) {
	lock := open(tb, s.URL()).RWMutex(name)
	ctx, cancel := context.WithCancel(tb.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		const often = 100 * time.Millisecond
		locktest.Repeat(often, often, func() bool { return ctx.Err() == nil }, func(int) {
			if l, err := lock.Lock(ctx); err == nil {
				_ = l.Release(context.WithoutCancel(ctx))
			}
		})
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// warmUp uses a lock for a while, because a Java virtual machine is slow at first.
func warmUp(tb testing.TB, s *redistest.Server) {
	tb.Helper()
	if _, _, _, err := (mixedLoad{kind: "mutex", threads: 1}).run(tb, s, 0, 100); err != nil {
		tb.Fatal(err)
	}
}

// Four processes of each side use one lock. While a thread of either side waits, others take
// about as many turns as there are other threads, and not many more.
func TestShare(t *testing.T) {
	t.Cleanup(javaFleet.kill) // no later test uses it
	s := redistest.Start(t)
	warmUp(t, s)
	for _, kind := range []string{"mutex", "fenced", "write"} {
		t.Run(kind, func(t *testing.T) {
			const turns = 200
			ofJava, ofGo, took, err := mixedLoad{kind: kind, threads: 1, hold: 2 * time.Millisecond}.run(t, s, 0, turns)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("in %v: Java %v; Go %v", took.Round(time.Millisecond), ofJava, ofGo)
			for side, r := range map[string]sideResult{"Java": ofJava, "Go": ofGo} {
				if err := r.check(turns); err != nil {
					t.Errorf("%s: %v", side, err)
				}
			}
		})
	}
}

// check returns an error if a side had to wait for too many turns of others, when each thread
// takes so many. If all are chosen at random, half of the waits last for at most 0.7 times as
// many turns as there are threads. The limit is that of a side with half of an equal share.
func (r sideResult) check(turns int) error {
	const threads = 2 * sideProcesses
	median, most := r.between()
	if least := sideProcesses * turns / 10; len(r.passed) < least {
		return fmt.Errorf("%v: only %d waits, want %d", r, len(r.passed), least)
	}
	if median > 14*threads/10 || most > threads*turns/4 {
		return fmt.Errorf("%v, want %d, and at most %d", r, 14*threads/10, threads*turns/4)
	}
	return nil
}

// BenchmarkShare prints how Java and Go share one lock.
func BenchmarkShare(b *testing.B) {
	const ms = time.Millisecond
	loads := []mixedLoad{
		{"`Mutex`", "mutex", 1, 0, holdfast.Options{}},
		{"`Mutex`, held for 2 ms", "mutex", 1, 2 * ms, holdfast.Options{}},
		{"`Mutex`, held for 10 ms", "mutex", 1, 10 * ms, holdfast.Options{}},
		{"the same with `WakeAll`", "mutex", 1, 10 * ms, holdfast.Options{WakeAll: true}},
		{"`FencedMutex`, held for 2 ms", "fenced", 1, 2 * ms, holdfast.Options{}},
		{"`RWMutex`, written for 2 ms", "write", 1, 2 * ms, holdfast.Options{}},
		{"`Mutex`, four threads each", "mutex", 4, 0, holdfast.Options{}},
		{"`Mutex`, four threads each, held for 2 ms", "mutex", 4, 2 * ms, holdfast.Options{}},
		{"the same with `Handoffs: -1`", "mutex", 4, 2 * ms, holdfast.Options{Handoffs: -1}},
	}
	s := redistest.Start(b)
	warmUp(b, s)
	for b.Loop() {
		rows := [][]string{{"lock", "turns/s", "share of Java", "share of Go", "longest wait in Java, ms", "in Go, ms"}}
		for _, l := range loads {
			ofJava, ofGo, took, err := l.run(b, s, 6*time.Second, 0)
			if err != nil {
				b.Error(err)
			}
			rows = append(rows, []string{
				l.name, figure(float64(ofJava.turns+ofGo.turns) / took.Seconds()), figure(ofJava.share), figure(ofGo.share),
				fmt.Sprint(ofJava.longest.Milliseconds()), fmt.Sprint(ofGo.longest.Milliseconds()),
			})
		}
		printTable(os.Stdout, rows)
	}
	b.ReportMetric(0, "ns/op")
}

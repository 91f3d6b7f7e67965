package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// brokenVariable makes the locks of Holdfast exclude nothing, in this process and in its
// workers.
const brokenVariable = "PEERS_TEST_BROKEN"

func TestMain(m *testing.M) {
	if os.Getenv(brokenVariable) != "" {
		breakLocks()
	}
	locktest.Main(m, workers)
}

// breakLocks replaces the locks of Holdfast by one that everyone gets.
func breakLocks() {
	for i, l := range libraries {
		if l.ours && l.open != nil {
			libraries[i].open = func(context.Context, string) (client, error) { return noClient{}, nil }
		}
	}
}

type noClient struct{}

func (noClient) lock(string) lock              { return noClient{} }
func (noClient) close()                        {}
func (noClient) acquire(context.Context) error { return nil }
func (noClient) release(context.Context) error { return nil }

// tiny returns settings that take a moment.
func tiny(s *scope) *bench {
	b := newBench(s, 100*time.Millisecond)
	b.names, b.readers, b.flood, b.hot, b.processes, b.held, b.idle, b.crowd = 3, 4, 4, 2, 2, 20, 3, []int{2}
	b.idleWindow, b.heldWindow, b.writerWindow, b.await = 4*b.window, b.window, 2*b.window, true
	return b
}

// Every scenario yields figures for every lock, and the report has them. A peer that does not
// get a lock in time is left out, and the report says so.
func TestScenarios(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.json")
	s, err := parse([]string{"-reps", "1", "-json", file, "-svg", filepath.Join(dir, "crowd.svg")})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = within(func(scope *scope) error { return s.run(t.Context(), tiny(scope), &out) })
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, sc := range scenarios {
		if !strings.Contains(out.String(), "## "+sc.name+": ") {
			t.Errorf("no table of %s", sc.name)
		}
		for _, lock := range sc.locks {
			rows := slices.DeleteFunc(slices.Clone(d.Rows), func(r *row) bool { return r.Scenario != sc.name || r.Lock != lock })
			if len(rows) == 0 && !strings.Contains(out.String(), fmt.Sprintf("left out: %s: %s,", sc.name, lock)) {
				t.Errorf("%s: no figures of %s", sc.name, lock)
			}
			for _, r := range rows {
				sane(t, sc, r)
			}
		}
	}
	if len(d.Targets) == 0 {
		t.Error("no targets")
	}
	chart, err := os.ReadFile(filepath.Join(dir, "crowd.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(chart, []byte("<polyline")); n < 4 {
		t.Errorf("%d lines in the chart", n)
	}
	for x := xml.NewDecoder(bytes.NewReader(chart)); ; {
		if _, err := x.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// sane checks the figures of a row.
func sane(t *testing.T, sc scenario, r *row) {
	t.Helper()
	l := find(r.Lock)
	var positive []string
	switch sc.name {
	case "one", "reader", "multi":
		positive = []string{pairTime, floorTime, pairRatio}
	case "names", "readers":
		positive = []string{pairRate, jainIndex}
	case "writer":
		positive = []string{pairRate, writerP50, writerP99, writerLongest}
		if l.name == writerFirst { // another one may wait all the time
			positive = append(positive, writes)
		}
	case "limiter":
		positive = []string{allowTime, floorTime, allowRatio, refusalRate, evalRate, refusalRatio}
	case "hot", "processes", "crowd", "crowd-replica":
		if !l.ours && l.name != sketched && l.name != leased {
			break // one goroutine may have the lock all the time
		}
		positive = []string{pairRate, handoffRate, requestsEach, commandsEach, jainIndex, longestWait}
	case "wakeup":
		positive = []string{wakeTime, floorTime, wakeRatio}
	case "held":
		positive = []string{pairTime, pairTimeAlone}
	case "idle":
		if v, ok := r.median(pairRate); v != 0 || !ok {
			t.Errorf("idle: %s was granted to a waiting client", r.Lock)
		}
	}
	for _, figure := range positive {
		if v, _ := r.median(figure); v <= 0 {
			t.Errorf("%s: %s has %v %s", sc.name, r.Lock, v, figure)
		}
	}
	if v, ok := r.median(jainIndex); ok && v > 1.000001 {
		t.Errorf("%s: %s: %s is %v", sc.name, r.Lock, jainIndex, v)
	}
	if l.ours && r.Violation > 0 {
		t.Errorf("%s: %s: %d violations", sc.name, r.Lock, r.Violation)
	}
}

// The program notices a lock that does not exclude.
func TestViolation(t *testing.T) {
	t.Setenv(brokenVariable, "1")
	for scenario, lock := range map[string]string{"crowd": mutex, "writer": writeLock} {
		s, err := parse([]string{"-reps", "1", "-scenario", scenario, "-locks", lock})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = within(func(scope *scope) error { return s.run(t.Context(), tiny(scope), &out) })
		if !errors.Is(err, errViolated) {
			t.Errorf("%s: %v\n%s", scenario, err, out.String())
		}
	}
}

type always bool

func (a always) Allow(context.Context) (bool, error) { return bool(a), nil }

// The program notices a limiter that grants more than its rate.
func TestViolationOfRate(t *testing.T) {
	b := &bench{window: 10 * time.Millisecond}
	for _, broken := range []always{false, true} {
		f := make(figures)
		if err := b.refused(t.Context(), f, broken, always(false), 2); err != nil {
			t.Fatal(err)
		}
		if (f[violations] > 0) != bool(broken) || f[evalRate] <= 0 || (f[refusalRate] > 0) == bool(broken) {
			t.Errorf("broken: %v: %v", broken, f)
		}
	}
	for d, want := range map[time.Duration]int64{0: 10, 999 * time.Millisecond: 10, 2500 * time.Millisecond: 30} {
		if got := permitsIn(floodRate, d); got != want {
			t.Errorf("%d permits in %v, want %d", got, d, want)
		}
	}
}

// A ratio is the median of the ratios of all rounds, and does not depend on how fast the
// machine is in a round.
func TestRatio(t *testing.T) {
	rows := func(list ...float64) *row {
		r := new(row)
		for _, v := range list {
			r.Measured = append(r.Measured, figures{pairRate: v})
		}
		return r
	}
	for _, test := range []struct {
		of, over *row
		want     float64
		ok       bool
	}{
		{rows(120, 60, 60), rows(100, 100, 50), 1.2, true}, // the medians are 60 and 100
		{rows(60, 60, 120), rows(100, 50), 0.8, true},      // one was left out: 60 / 75
		{rows(1, 1), rows(0, 0), 0, false},
		{rows(), rows(1), 0, false},
	} {
		got, ok := ratio(test.of, pairRate, test.over, pairRate)
		if ok != test.ok || ok && math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%v over %v: %v, %v", test.of.Measured, test.over.Measured, got, ok)
		}
	}
}

// Targets come from the medians of the figures.
func TestTargets(t *testing.T) {
	var rs results
	set := func(scenario, lock string, n int, f figures) {
		r := rs.at(scenario, lock, point{n: n})
		r.Measured = append(r.Measured, f)
	}
	set("names", mutex, 512, figures{pairRate: 130})
	set("names", redsyncs, 512, figures{pairRate: 100})
	set("names", bareHash, 512, figures{pairRate: 130})
	set("readers", readLock, 64, figures{pairRate: 600})
	set("readers", bareHash, 64, figures{pairRate: 100})
	for _, v := range []float64{1, 1.5, 9} {
		set("reader", readLock, 0, figures{pairRatio: v, allocations: 1})
	}
	set("multi", multiOf8, 0, figures{pairRatio: 2, allocations: 47})
	set("limiter", rateLimiter, 64, figures{allowRatio: 1.2, refusalRatio: 12})
	want := []struct {
		value float64
		holds bool
	}{{1.3, true}, {1, false}, {6, true}, {1.5, false}, {2, true}, {47, false}, {1.2, true}, {12, true}}
	list := rs.targets()
	if len(list) != len(want) {
		t.Fatalf("%d targets: %v", len(list), list)
	}
	for i, target := range list {
		if math.Abs(target.Value-want[i].value) > 1e-9 || target.Holds != want[i].holds {
			t.Errorf("%+v, want %v", target, want[i])
		}
	}
}

// An earlier run is compared with this one.
func TestBaseline(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var rs results
	r := rs.at("writer", writeLock, point{64, time.Millisecond})
	r.Measured = []figures{{writerLongest: 40, writes: 0}}
	text, err := json.Marshal(document{Rows: rs})
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse([]string{"-baseline", write("run.json", string(text))})
	if err != nil {
		t.Fatal(err)
	}
	r.Measured = []figures{{writerLongest: 10, writes: 7, pairRate: 5}}
	var out bytes.Buffer
	rs.compare(&out, s.baseline)
	got := strings.Fields(strings.ReplaceAll(out.String(), "|", ""))
	for _, want := range []string{
		"writer 64 1ms write-lock writer's longest wait, ms 40.0 10.0 0.25",
		"writer 64 1ms write-lock writes 0 7 writer", // no ratio to 0
	} {
		if !strings.Contains(strings.Join(got, " "), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), pairRate) {
		t.Errorf("a figure that the earlier run does not have:\n%s", out.String())
	}
	for _, file := range []string{filepath.Join(dir, "missing"), write("text", "text"), write("empty", "{}"), write("null", `{"rows":[null]}`)} {
		if _, err := parse([]string{"-baseline", file}); err == nil {
			t.Errorf("%s is accepted", file)
		}
	}
}

// The requests that are counted at the server are those that the clients have sent.
func TestRequests(t *testing.T) {
	for _, l := range libraries {
		if l.open == nil {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			server := redistest.Start(t)
			p := redistest.NewProxy(t, server.Addr())
			clients, err := openAll(t.Context(), l, p.Addr(), 2)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				for _, c := range clients {
					c.close()
				}
			}()
			before, err := usageOf(server, l)
			if err != nil {
				t.Fatal(err)
			}
			p.ResetCounts()
			var wg sync.WaitGroup
			for i, c := range clients {
				name := lockName
				if l.floor {
					name += string(rune('0' + i))
				}
				k := c.lock(name)
				wg.Go(func() {
					if _, err := pairs(t.Context(), k, 10); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			var counted, sent int64
			locktest.Eventually(t, 20*time.Second, "the same numbers", func() bool {
				after, err := usageOf(server, l)
				if err != nil {
					t.Fatal(err)
				}
				counted, sent = after.Requests-before.Requests, int64(p.Total()-p.Count("HELLO")-p.Count("CLIENT"))
				t.Logf("%d counted, %d sent: %v", counted, sent, p.Commands())
				return counted == sent
			})
			if counted < 40 && !l.reads || counted < 4 { // readers may share requests
				t.Errorf("%d requests for 20 pairs", counted)
			}
		})
	}
}

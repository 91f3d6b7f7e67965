package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
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
		breakMutex()
	}
	locktest.Main(m, workers)
}

// breakMutex replaces the mutex by a lock that everyone gets.
func breakMutex() {
	for i, l := range libraries {
		if l.name == mutex {
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
	b.names, b.hot, b.processes, b.held, b.idle, b.crowd = 3, 2, 2, 20, 3, []int{2}
	b.idleWindow, b.heldWindow, b.await = 4*b.window, b.window, true
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
	case "one":
		positive = []string{pairTime, floorTime, pairRatio}
	case "names":
		positive = []string{pairRate, jainIndex}
	case "hot", "processes", "crowd", "crowd-replica":
		if !l.ours && l.name != sketched {
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
	s, err := parse([]string{"-reps", "1", "-scenario", "crowd", "-locks", mutex})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = within(func(scope *scope) error { return s.run(t.Context(), tiny(scope), &out) })
	if !errors.Is(err, errViolated) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// The requests that are counted at the server are those that the clients have sent.
func TestRequests(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			server := redistest.Start(t)
			p := redistest.NewProxy(t, server.Addr())
			clients, err := openAll(l, p.Addr(), 2)
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
				counted, sent = after.requests-before.requests, int64(p.Total()-p.Count("HELLO")-p.Count("CLIENT"))
				t.Logf("%d counted, %d sent: %v", counted, sent, p.Commands())
				return counted == sent
			})
			if counted < 40 {
				t.Errorf("%d requests for 20 pairs", counted)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for want, got := range map[string]string{
		"0": number(0, 0), "999": number(999, 0), "1,000": number(1000, 0), "1,234,567.9": number(1234567.89, 1), "0.50": number(0.5, 2),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

type benchLine struct {
	Count                                 int64
	PerSecond, P50Ms, P90Ms, P99Ms, MaxMs float64
}

// A measurement is what bench --json prints.
type measurement struct {
	Server struct {
		Node, Version string
		Embedded      bool
	}
	Kind                         string
	Names, Goroutines, Processes int
	TookMs                       float64
	Locks, Floor                 benchLine
	Histogram                    []struct {
		BelowMs float64
		Count   int64
	}
	Handoffs, HandoffsWithoutServer  *int64
	Scripts, Subscriptions, Messages int64
	CommandsPerLock                  float64
	CommandsPerHandoff               *float64
}

func measured(t *testing.T, r result) (m measurement) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil || r.status != 0 {
		t.Fatalf("status %d, %v\n%s\n%s", r.status, err, r.out, r.err)
	}
	return m
}

func TestBench(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		args   []string
		shared bool
		passed bool // hand-offs happen inside the process
	}{
		{"mutex", []string{"--for", "3s"}, false, true}, // a machine that stalls for 1 s would have none in 1 s
		{"fair", []string{"--kind", "fair"}, false, false},
		{"fenced", []string{"--kind", "fenced", "--names", "3"}, false, false},
		{"rw", []string{"--kind", "rw"}, true, false},
		{"processes", []string{"--for", "3s", "--processes", "2", "--goroutines", "4"}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := measured(t, execute(t, append([]string{"bench", "--json", "--for", "1s", "--url", s.URL()}, tt.args...)...))
			if m.Server.Node != s.Addr() || m.Server.Embedded || m.Server.Version == "" {
				t.Errorf("the server: %+v", m.Server)
			}
			for _, l := range []benchLine{m.Locks, m.Floor} {
				if l.Count == 0 || l.PerSecond <= 0 || l.P50Ms <= 0 || l.P50Ms > l.P90Ms || l.P90Ms > l.P99Ms || l.P99Ms > l.MaxMs {
					t.Errorf("latencies: %+v", l)
				}
			}
			var sum int64
			for _, b := range m.Histogram {
				sum += b.Count
			}
			if sum != m.Locks.Count || m.Scripts == 0 {
				t.Errorf("%d locks, %d of them in the histogram, %d scripts", m.Locks.Count, sum, m.Scripts)
			}
			switch {
			case tt.shared:
				if m.Handoffs != nil || m.CommandsPerHandoff != nil {
					t.Error("hand-offs of a shared lock")
				}
			case m.Handoffs == nil || *m.Handoffs == 0 || *m.Handoffs > m.Locks.Count || *m.HandoffsWithoutServer > *m.Handoffs:
				t.Errorf("hand-offs: %+v", m)
			case tt.passed != (*m.HandoffsWithoutServer > 0):
				t.Errorf("%d hand-offs without the server", *m.HandoffsWithoutServer)
			case !tt.passed && m.CommandsPerLock < 2:
				t.Errorf("%v commands per lock, want at least 2: acquire and release", m.CommandsPerLock)
			}
			if left := s.Keys(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestBenchCount compares the commands that bench counts with those of the server.
func TestBenchCount(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := measured(t, execute(t, "bench", "--json", "--for", "300ms", "--kind", "fair", "--goroutines", "3", "--url", s.URL()))
	var scripts int64
	for line := range strings.Lines(s.Do(t, "INFO", "commandstats").(string)) {
		if strings.HasPrefix(line, "cmdstat_eval") {
			var calls int64
			for field := range strings.SplitSeq(line, ",") {
				if _, n, ok := strings.Cut(field, "calls="); ok && strings.Contains(field, ":calls=") {
					_ = json.Unmarshal([]byte(n), &calls)
				}
			}
			scripts += calls
		}
	}
	// The server also counts the empty scripts, the retries of scripts that it did not
	// know, and the scripts that remove the keys.
	if counted := m.Scripts + m.Floor.Count; scripts < counted || scripts > counted+50 {
		t.Errorf("the server has seen %d scripts, bench has counted %d", scripts, counted)
	}
}

func TestBenchShows(t *testing.T) {
	t.Parallel()
	p := startTerminal(t, 100, 30, nil, "bench", "--server", "real", "--for", "2s")
	p.awaitOutput(t, `scripts .*━.*\d+% \d`)
	p.awaitOutput(t, `locks .*━.*\d+% [\d,]+, [\d,]+ a second`)
	p.wait(t).want(t, 0, `Started (redis|valkey)-server \S+ at redis://127.*for this run\.(?s:.*)16 goroutines on 1 name of kind mutex for \d+\.\d s`+
		`.*locks +[\d,]+ .*empty scripts.*Time to acquire a lock:.*  < \d+\S+ +\d+\.\d %.*█.*commands per lock.*commands per hand-off.*without the server`, "*")
}

// TestBenchInterrupted checks that bench removes its keys after Ctrl-C.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for _, processes := range []string{"1", "2"} {
		t.Run(processes, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := start(t, nil, "bench", "--for", "1m", "--kind", "fenced", "--names", "5", "--processes", processes, "--prefix", "mine:", "--url", s.URL())
			eventually(t, "locks are taken", func() bool {
				for _, k := range s.Keys(t) {
					if strings.HasPrefix(k, "mine:") {
						return true
					}
				}
				return false
			})
			p.signal(t, os.Interrupt)
			p.wait(t).want(t, 130, "", "")
			if left := s.Keys(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func TestBenchFails(t *testing.T) {
	t.Parallel()
	_, addr := serves(t, nil, "--server", "embedded")
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"embedded", []string{"--url", "redis://" + addr}, 2, `^holdfast: this is an embedded server: .*\n.*--url.*--server real.*--force`},
		{"embedded, its own", []string{"--server", "embedded"}, 2, `^holdfast: this is an embedded server: `},
		{"unreachable", []string{"--url", "redis://127.0.0.1:1"}, 122, `refused\nIs the server running`},
		{"two servers", []string{"--server", "real", "--url", "redis://localhost"}, 2, `omit either --server or --url and --config`},
		{"no time", []string{"--for", "1ms"}, 2, `--for is 1ms: it must be between`},
		{"no goroutines", []string{"--goroutines", "0"}, 2, `--goroutines is 0: it must be between`},
		{"too many", []string{"--processes", "1000"}, 2, `--processes is 1000: it must be between`},
		{"no names", []string{"--names", "-1"}, 2, `--names is -1: it must be between`},
		{"no kind", []string{"--kind", "fast"}, 2, `it must be mutex, fair, fenced, rw`},
		{"a reserved name", []string{"--prefix", "holdfast:", "--server", "real"}, 2, `names that begin with "holdfast:" are reserved`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			execute(t, append([]string{"bench", "--json"}, tt.args...)...).want(t, tt.status, "", tt.says)
		})
	}
	t.Run("forced", func(t *testing.T) {
		t.Parallel()
		if m := measured(t, execute(t, "bench", "--json", "--for", "300ms", "--force", "--url", "redis://"+addr)); !m.Server.Embedded {
			t.Errorf("%+v", m)
		}
	})
	t.Run("server dies", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		p := start(t, nil, "bench", "--for", "1m", "--processes", "2", "--url", s.URL())
		eventually(t, "locks are taken", func() bool { return len(s.Keys(t)) > 0 })
		s.Kill()
		p.wait(t).want(t, 122, "", `may remain on the server.*holdfast: a bench process failed: `)
	})
}

// TestBenchWorkerKilled checks that bench reports a killed worker and removes the
// keys of that worker.
func TestBenchWorkerKilled(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("requires /proc")
	}
	s := redistest.Start(t)
	p := start(t, nil, "bench", "--kind", "fair", "--processes", "2", "--for", "30s", "--url", s.URL())
	eventually(t, "the queue has a waiter", func() bool { return len(s.Keys(t)) > 2 })
	for _, pid := range benchChildren(t, p.cmd.Process.Pid)[:1] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.wait(t).want(t, 1, "", `^holdfast: a bench process failed: signal: killed\n`)
	if left := s.Keys(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// benchChildren returns the children of a process.
func benchChildren(t *testing.T, parent int) (pids []int) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		for _, f := range strings.Fields(string(list)) {
			pid, _ := strconv.Atoi(f)
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		t.Fatal("there are no children")
	}
	return pids
}

// TestBenchPrefix runs bench as a user with access to keys with the prefix only. It
// can remove all keys that it created.
func TestBenchPrefix(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "bench", "on", ">pw", "~app:*", "~redisson_lock__channel:{app:*", "&*", "+@all")
	execute(t, "bench", "--for", "200ms", "--prefix", "app:", "--url", "redis://bench:pw@"+s.Addr()).want(t, 0, "commands per lock", "")
}

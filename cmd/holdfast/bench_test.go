package main_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
	Kind                                    string
	Names, Goroutines, Crowd, Processes     int
	HoldMs, TookMs                          float64
	GrantedByServer, PassedInProcess, Locks benchLine
	Floor                                   benchLine
	Histogram                               []struct {
		BelowMs float64
		Count   int64
	}
	Handoffs *struct {
		Count, ThroughServer, InProcess int64
		ThroughServerPerSecond          float64
	}
	Requests struct {
		Scripts, Subscriptions                    int64
		PerLock, PerServerGrant, PerServerHandoff *float64
	}
	Messages                 int64
	JainIndex, LongestWaitMs float64
	Warnings                 []string
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

// consistent checks that the figures of a measurement add up.
func (m measurement) consistent(t *testing.T) {
	t.Helper()
	for name, l := range map[string]benchLine{"grantedByServer": m.GrantedByServer, "passedInProcess": m.PassedInProcess, "locks": m.Locks, "floor": m.Floor} {
		if l.P50Ms > l.P90Ms || l.P90Ms > l.P99Ms || l.P99Ms > l.MaxMs || (l.Count > 0) != (l.PerSecond > 0 && l.P50Ms > 0) || l.Count == 0 && l != (benchLine{}) {
			t.Errorf("%s: %+v", name, l)
		}
		if name != "floor" && !near(l.PerSecond*m.TookMs/1000, float64(l.Count)) {
			t.Errorf("%s: %v per second in %v ms, but %d", name, l.PerSecond, m.TookMs, l.Count)
		}
	}
	var sum int64
	for _, b := range m.Histogram {
		sum += b.Count
	}
	if n := m.Locks.Count; n == 0 || m.Floor.Count == 0 || m.GrantedByServer.Count == 0 || sum != n || m.GrantedByServer.Count+m.PassedInProcess.Count != n {
		t.Errorf("%d locks, %d in the histogram, %d granted by the server and %d passed on", n, sum, m.GrantedByServer.Count, m.PassedInProcess.Count)
	}
	requests := float64(m.Requests.Scripts + m.Requests.Subscriptions)
	per := func(name string, each *float64, n int64) {
		t.Helper()
		if (each != nil) != (n > 0) || each != nil && !near(*each*float64(n), requests) {
			t.Errorf("%s: %v requests, %d of these: %+v", name, requests, n, m.Requests)
		}
	}
	per("perLock", m.Requests.PerLock, m.Locks.Count)
	per("perServerGrant", m.Requests.PerServerGrant, m.GrantedByServer.Count)
	if h := m.Handoffs; h == nil {
		per("perServerHandoff", m.Requests.PerServerHandoff, 0)
	} else {
		per("perServerHandoff", m.Requests.PerServerHandoff, h.ThroughServer)
		if h.Count != h.ThroughServer+h.InProcess || h.ThroughServer > m.GrantedByServer.Count || h.InProcess > m.PassedInProcess.Count ||
			!near(h.ThroughServerPerSecond*m.TookMs/1000, float64(h.ThroughServer)) {
			t.Errorf("hand-offs: %+v of %d and %d locks", h, m.GrantedByServer.Count, m.PassedInProcess.Count)
		}
	}
	if m.JainIndex <= 0 || m.JainIndex > 1.000001 {
		t.Errorf("Jain's index is %v", m.JainIndex)
	}
	// The maximum of the latencies has two digits, the longest wait is exact.
	if m.LongestWaitMs < 0.98*m.Locks.MaxMs || m.LongestWaitMs > m.TookMs+1 {
		t.Errorf("the longest wait is %v ms, the longest wait for a lock %v ms, the measurement %v ms", m.LongestWaitMs, m.Locks.MaxMs, m.TookMs)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 0.001*max(a, b) }

func TestBench(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		args   []string
		shared bool
		passed bool // locks are passed on inside the process
	}{
		{"mutex", []string{"--for", "3s"}, false, true}, // a machine that stalls for 1 s would have none in 1 s
		{"fair", []string{"--kind", "fair mutex"}, false, false},
		{"fenced", []string{"--kind", "fenced mutex", "--names", "3"}, false, false},
		{"rw", []string{"--kind", "read/write mutex"}, true, false},
		{"processes", []string{"--for", "3s", "--processes", "2", "--goroutines", "4"}, false, true},
		{"hold", []string{"--for", "3s", "--hold", "1ms"}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := measured(t, execute(t, append([]string{"bench", "--json", "--for", "1s", "--url", s.URL()}, tt.args...)...))
			if m.Server.Node != s.Addr() || m.Server.Embedded || m.Server.Version == "" {
				t.Errorf("the server: %+v", m.Server)
			}
			m.consistent(t)
			if m.Crowd != 0 || m.Goroutines == 0 {
				t.Errorf("a crowd of %d, %d goroutines", m.Crowd, m.Goroutines)
			}
			switch {
			case tt.shared:
				if m.Handoffs != nil {
					t.Error("hand-offs of a shared lock")
				}
			case m.Handoffs == nil || m.Handoffs.Count == 0:
				t.Errorf("no hand-offs: %+v", m)
			case tt.passed != (m.Handoffs.InProcess > 0):
				t.Errorf("%d hand-offs inside the process", m.Handoffs.InProcess)
			case *m.Requests.PerServerGrant < 1.9: // not 2, because the window cuts some pairs in two
				t.Errorf("%v requests per lock that the server granted, want 2: acquire and release", *m.Requests.PerServerGrant)
			}
			if left := s.Keys(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestBenchCrowd checks that clients that share nothing get every lock from the server,
// and that the cost of a hand-off does not depend on their number.
func TestBenchCrowd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind               string
		clients, processes int
	}{{"mutex", 20, 1}, {"mutex", 20, 3}, {"mutex", 2, 2}, {"fair mutex", 20, 1}, {"fenced mutex", 20, 1}} {
		t.Run(fmt.Sprintf("%s/%d/%d", tt.kind, tt.clients, tt.processes), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := measured(t, execute(t, "bench", "--json", "--for", "2s", "--kind", tt.kind, "--crowd", strconv.Itoa(tt.clients), "--processes", strconv.Itoa(tt.processes), "--url", s.URL()))
			m.consistent(t)
			clients := int64(tt.clients)
			if m.Crowd != tt.clients || m.Goroutines != 0 || m.Processes != tt.processes || m.Kind != tt.kind {
				t.Errorf("settings: %+v", m)
			}
			if m.PassedInProcess.Count != 0 {
				t.Errorf("%d locks were passed on without the server", m.PassedInProcess.Count)
			}
			requests, handoffs := m.Requests.Scripts+m.Requests.Subscriptions, m.Handoffs.ThroughServer
			t.Logf("%d hand-offs, %d requests, Jain's index %.3f, longest wait %.0f ms", handoffs, requests, m.JainIndex, m.LongestWaitMs)
			// Some clients may subscribe, or ask again, during the measurement. With one client
			// per process, a client whose process is busy leaves all locks to the other one.
			most := 4*handoffs + 8*clients
			if tt.clients == tt.processes {
				most = 4*m.GrantedByServer.Count + 8*clients
			}
			if handoffs == 0 || requests < handoffs || requests > most {
				t.Errorf("%d requests for %d hand-offs between %d clients", requests, handoffs, clients)
			}
			if tt.clients != tt.processes && handoffs > 50*clients && m.JainIndex < 0.8 {
				t.Errorf("Jain's index is %v", m.JainIndex)
			}
			if left := s.Keys(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestBenchExclusion deletes a lock while it is held. Then two owners hold it, which
// bench must notice.
func TestBenchExclusion(t *testing.T) {
	t.Parallel()
	for _, processes := range []string{"1", "4"} {
		t.Run(processes, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := start(t, nil, "bench", "--for", "1m", "--crowd", "4", "--processes", processes, "--hold", "5s", "--prefix", "mine:", "--url", s.URL())
			held := func() (name, owner string) {
				for _, k := range s.Keys(t) {
					if strings.HasPrefix(k, "mine:") {
						return k, fmt.Sprint(s.Do(t, "HKEYS", k))
					}
				}
				return "", ""
			}
			var name, owner string
			var since time.Time
			eventually(t, "a client holds the lock", func() bool { // not in the warm-up, which holds no lock for long
				if n, by := held(); n != name || by != owner {
					name, owner, since = n, by, time.Now()
				}
				return name != "" && time.Since(since) > 500*time.Millisecond
			})
			s.Do(t, "DEL", name)
			s.Do(t, "PUBLISH", "redisson_lock__channel:{"+name+"}", "0")
			p.wait(t).want(t, 1, "", `two owners held the lock mine:\S+ at the same time\nIf the server`)
			if left := s.Keys(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestBenchCount compares the requests that bench counts with those of the server.
func TestBenchCount(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"goroutines": {"--kind", "fair mutex", "--goroutines", "3"},
		"crowd":      {"--crowd", "5"},
		"processes":  {"--crowd", "5", "--processes", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			benchCount(t, args)
		})
	}
}

func benchCount(t *testing.T, args []string) {
	t.Helper()
	s := redistest.Start(t)
	m := measured(t, execute(t, append([]string{"bench", "--json", "--for", "500ms", "--url", s.URL()}, args...)...))
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
	// The server also counts the empty scripts, the warm-up, the end of the waiting, the
	// retries of scripts that it did not know, and the scripts that remove the keys.
	if counted := m.Requests.Scripts + m.Floor.Count; scripts < counted || scripts > counted+80 {
		t.Errorf("the server has seen %d scripts, bench has counted %d", scripts, counted)
	}
}

func TestBenchShows(t *testing.T) {
	t.Parallel()
	p := startTerminal(t, 200, 30, nil, "bench", "--server", "real", "--for", "2s")
	p.awaitOutput(t, `scripts .*━.*\d+% \d`)
	p.awaitOutput(t, `locks .*━.*\d+% [\d,]+ from the server, [\d,]+ a second`)
	p.wait(t).want(t, 0, `Started (redis|valkey)-server \S+ at redis://127.*for this run\..*`+
		`The server granted [\d,]+ locks per second\.\s+Another [\d,]+ per second \(\d+ % of all\) were passed on inside the process, without the server\..*`+
		`16 goroutines that share a client, 1 name of kind mutex, \d+\.\d s, server.*`+
		`granted by the server +[\d,]+ .*passed in the process +[\d,]+ .*empty scripts .*`+
		`Time to acquire a lock:.*  < \d+\S+ +\d+\.\d %.*█.*`+
		`Requests: [\d,]+ scripts, .*\d\.\d\d per lock that the server granted, 0\.\d\d per lock in all.*`+
		`Hand-offs: [\d,]+ through the server \([\d,]+ per second\), [\d,]+ inside the process.*\d\.\d\d requests per hand-off through the server.*`+
		`Jain's index over the goroutines: [01]\.\d\d .*Longest wait: [\d.]+ ms.*Exclusion was checked: `, "*")
}

func TestBenchShowsCrowd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for kind, says := range map[string]string{
		"mutex": `^The server granted [\d,]+ locks per second to a crowd of 5 clients\.\nOf these, [\d,]+ per second were hand-offs to another client, with \d\.\d\d requests each\.\n\n` +
			`5 clients that share nothing, in 2 processes, 1 name of kind mutex, .*granted by the server .*empty scripts, serial.*Jain's index over the clients: `,
		"read/write mutex": `^The server granted [\d,]+ locks per second to a crowd of 5 clients\.\n\n5 clients that share nothing, in 2 processes, 1 name of kind read/write mutex`,
	} {
		r := execute(t, "bench", "--for", "1s", "--crowd", "5", "--processes", "2", "--kind", kind, "--url", s.URL())
		r.want(t, 0, says, "")
		if strings.Contains(r.out, "passed ") || strings.Contains(r.out, "in all") {
			t.Errorf("the crowd passes locks on inside a process:\n%s", r.out)
		}
	}
}

// TestBenchInterrupted checks that bench removes its keys after Ctrl-C.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"goroutines":         {"--names", "5"},
		"processes":          {"--names", "5", "--processes", "2"},
		"crowd":              {"--crowd", "10"},
		"crowd of processes": {"--crowd", "10", "--processes", "2"},
		"hold":               {"--crowd", "3", "--hold", "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := start(t, nil, append([]string{"bench", "--for", "1m", "--kind", "fenced mutex", "--prefix", "mine:", "--url", s.URL()}, args...)...)
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
		{"no crowd", []string{"--crowd", "0"}, 2, `--crowd is 0: it must be between 2 and 1000\n`},
		{"one client", []string{"--crowd", "1"}, 2, `--crowd is 1: it must be between`},
		{"too large a crowd", []string{"--crowd", "1001"}, 2, `--crowd is 1001: it must be between`},
		{"not a number", []string{"--crowd", "many"}, 2, `invalid argument "many" for "--crowd" flag.*\nRun holdfast bench --help`},
		{"a crowd of goroutines", []string{"--crowd", "5", "--goroutines", "2"}, 2, `omit either --crowd or --goroutines`},
		{"a crowd for names", []string{"--crowd", "5", "--names", "2"}, 2, `omit either --crowd or --names`},
		{"more processes than clients", []string{"--crowd", "5", "--processes", "6"}, 2, `--crowd is 5: it must be at least --processes, which is 6`},
		{"negative hold", []string{"--hold", "-1s"}, 2, `--hold is -1s: it must be between`},
		{"long hold", []string{"--hold", "2m"}, 2, `--hold is 2m0s: it must be between`},
		{"a crowd, unreachable", []string{"--crowd", "5", "--url", "redis://127.0.0.1:1"}, 122, `refused\nIs the server running`},
		{"no kind", []string{"--kind", "fast"}, 2, `it must be mutex, fair mutex, fenced mutex, read/write mutex`},
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
	for queue, args := range map[string][]string{
		"redisson_lock_queue:": {"--kind", "fair mutex"},
		"holdfast:queue:":      {"--crowd", "10", "--hold", "100ms"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := start(t, nil, append([]string{"bench", "--processes", "2", "--for", "30s", "--url", s.URL()}, args...)...)
			eventually(t, "the queue has a waiter", func() bool {
				return slices.ContainsFunc(s.Keys(t), func(k string) bool { return strings.HasPrefix(k, queue) })
			})
			for _, pid := range benchChildren(t, p.cmd.Process.Pid)[:1] {
				child, err := os.FindProcess(pid)
				if err != nil {
					t.Fatal(err)
				}
				_ = child.Kill()
			}
			p.wait(t).want(t, 1, "", `^holdfast: a bench process failed: signal: killed\n`)
			if left := s.Keys(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
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
// can remove all keys that it created, and says that the user lacks the queue.
func TestBenchPrefix(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "bench", "on", ">pw", "~app:*", "~redisson_lock__channel:{app:*", "&*", "+@all", "-info")
	args := []string{"bench", "--for", "500ms", "--prefix", "app:", "--url", "redis://bench:pw@" + s.Addr()}
	execute(t, append(args, "--goroutines", "4")...).want(t, 0, `server of unknown version at .*requests per hand-off`, "")
	execute(t, append(args, "--crowd", "4")...).want(t, 0, `requests per hand-off.*Warning: the user may not use the queue of waiting clients`, "")
	m := measured(t, execute(t, append(args, "--json", "--crowd", "4", "--processes", "2")...))
	m.consistent(t)
	if !slices.ContainsFunc(m.Warnings, func(w string) bool { return strings.Contains(w, "queue of waiting clients") }) {
		t.Errorf("warnings: %q", m.Warnings)
	}
	if left := s.Keys(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

//go:build unix

package main_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// runProgram is the variable that makes this test binary act as the program under
// `holdfast run`.
const runProgram = "RUN_TEST_PROGRAM"

func init() {
	if file := os.Getenv(runProgram); file != "" {
		os.Exit(runAsProgram(file, os.Args[1:]))
	}
}

// runAsProgram records in a file when it runs. It does so repeatedly, so that the
// file is correct even if the program is killed. It reports all signals and ignores
// them. It ends after a time or with its input.
func runAsProgram(file string, args []string) (status int) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	life, err := time.ParseDuration(args[0])
	if err != nil {
		panic(err)
	}
	status, _ = strconv.Atoi(args[1])
	over := make(<-chan time.Time)
	if life > 0 {
		over = time.After(life)
	}
	ended := make(chan struct{})
	if life == 0 {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(ended)
		}()
	}
	record := redistest.NewRecorder(f)
	now := redistest.Now()
	alive := func() {
		before := now
		now = redistest.Now()
		record.Record(redistest.Interval{Name: os.Getenv("HOLDFAST_LOCK"), Owner: os.Getenv("HOLDFAST_OWNER"), Enter: before, Leave: now})
	}
	alive()
	fmt.Printf("running %d.\n", os.Getpid())
	beat := time.NewTicker(5 * time.Millisecond)
	for {
		select {
		case s := <-signals:
			fmt.Printf("got %v.\n", s)
		case <-over:
			return status
		case <-ended:
			return status
		case <-beat.C:
		}
		alive()
	}
}

// A runTest has the name of a lock and the file in which all programs record when
// they run.
type runTest struct {
	name, file string
}

func newRunTest(tb testing.TB) runTest {
	return runTest{tb.Name(), filepath.Join(tb.TempDir(), "intervals")}
}

// args returns the arguments of `holdfast run` with the test program. The program
// runs for the given time, or until its input ends if that is zero, and exits with
// the status.
func (s runTest) args(url string, life time.Duration, status int, flags ...string) []string {
	args := append([]string{"run", "--url", url, s.name}, flags...)
	return append(args, "--", os.Args[0], life.String(), strconv.Itoa(status))
}

// start starts the program and waits until it runs.
func (s runTest) start(tb testing.TB, url string, flags ...string) *process {
	tb.Helper()
	p := s.wait(tb, url, 0, flags...)
	p.awaitOutput(tb, `running \d+\.`)
	return p
}

// wait starts the program. It may have to wait for the lock.
func (s runTest) wait(tb testing.TB, url string, life time.Duration, flags ...string) *process {
	tb.Helper()
	return start(tb, []string{runProgram + "=" + s.file}, s.args(url, life, 7, flags...)...)
}

// exclusive checks that no two programs ran at the same time. It returns their
// owners in the order of their starts.
func (s runTest) exclusive(tb testing.TB) (owners []string) {
	tb.Helper()
	intervals := s.intervals(tb)
	if err := redistest.CheckExclusive(intervals); err != nil {
		tb.Error(err)
	}
	seen := make(map[string]bool)
	for _, l := range intervals {
		if !seen[l.Owner] {
			seen[l.Owner] = true
			owners = append(owners, l.Owner)
		}
	}
	return owners
}

// intervals returns the records of the programs.
func (s runTest) intervals(tb testing.TB) []redistest.Interval {
	tb.Helper()
	f, err := os.Open(s.file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	intervals, err := redistest.ReadIntervals(f)
	if err != nil {
		tb.Fatal(err)
	}
	return intervals
}

// lastAlive returns the last time at which a program was alive.
func (s runTest) lastAlive(tb testing.TB) (last int64) {
	tb.Helper()
	for _, l := range s.intervals(tb) {
		last = max(last, l.Leave)
	}
	return last
}

// awaitExit waits until the process is dead and returns the current time.
func (s runTest) awaitExit(tb testing.TB, pid int) int64 {
	tb.Helper()
	eventually(tb, "the process is dead", func() bool { return runDead(pid) })
	return redistest.Now()
}

// wantTerminated checks that the program got SIGTERM before it was killed. The
// program has a second to report it. The check is skipped if the program did not get
// to run in that time.
func (s runTest) wantTerminated(tb testing.TB, r result, dead int64) {
	tb.Helper()
	still := time.Duration(dead - s.lastAlive(tb))
	if !strings.Contains(r.out, "got terminated.") && still < 500*time.Millisecond {
		tb.Errorf("the program got no SIGTERM; it was last alive %v before its end:\n%s", still, r.out)
	}
}

// runPID returns the process id of the program from its output.
func runPID(tb testing.TB, p *process) int {
	tb.Helper()
	pid, err := strconv.Atoi(strings.Trim(strings.TrimPrefix(p.awaitOutput(tb, `running \d+\.`), "running "), "."))
	if err != nil {
		tb.Fatal(err)
	}
	return pid
}

// runState returns the letter of the state of a process, or "" if the process does
// not exist.
func runState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	if err != nil || state == "" {
		return ""
	}
	return state[:1]
}

// runDead reports whether a process has ended. A zombie has ended.
func runDead(pid int) bool {
	return runState(pid) == "Z" || syscall.Kill(pid, 0) != nil
}

// TestRunLabel checks that the holder has the name of the program, or that of --label.
func TestRunLabel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	config := func(section string) []string {
		file := filepath.Join(t.TempDir(), "redisson.yaml")
		text := "singleServerConfig:\n  address: \"" + s.URL() + "\"\n" + section
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--config", file}
	}
	url := []string{"--url", s.URL()}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(t.TempDir(), "job\n1")
	if err := os.Symlink(sleep, strange); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args    []string
		program string
		want    string
	}{
		"default":   {url, "sleep", "sleep"},
		"path":      {url, sleep, "sleep"},
		"strange":   {url, strange, ""},
		"flag":      {append([]string{"--label", "nightly é"}, url...), "sleep", "nightly é"},
		"config":    {config(""), "sleep", "sleep"},
		"in a file": {config("holdfast:\n  label: blue\n"), "sleep", "blue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, append(append([]string{"run", name}, tt.args...), "--", tt.program, "600")...)
			eventually(t, "the client has said who it is", func() bool {
				lock := lsDecode[lsLock](t, execute(t, "show", name, "--json", "--url", s.URL()).out)
				if len(lock.Holders) == 0 || lock.Holders[0].Client.PID == 0 {
					return false
				}
				if c := lock.Holders[0].Client; c.Label != tt.want || c.PID != p.cmd.Process.Pid {
					t.Errorf("%+v", c)
				}
				return true
			})
		})
	}
	execute(t, append(append([]string{"run", "quiet"}, config("holdfast:\n  anonymous: true\n")...), "--", "sh", "-c", "exit 7")...).want(t, 7, "", "")
	for _, label := range []string{strings.Repeat("x", 129), "a\nb", "a\xff"} {
		execute(t, "run", "orders", "--label", label, "--url", s.URL(), "--", "true").want(t, 2, "", `^holdfast: --label is .*: use at most 128 bytes of printable text\n`)
	}
}

package main_test

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// runProgram names the variable that makes this test binary the program that
// `holdfast run` runs.
const runProgram = "RUN_TEST_PROGRAM"

func init() {
	if file := os.Getenv(runProgram); file != "" {
		os.Exit(runAsProgram(file, os.Args[1:]))
	}
}

// runAsProgram writes to a file from when to when it has lived, again and
// again, so that the file is true even if it is killed. It tells of all signals,
// obeys none, and ends after a time, or with its input.
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

// A runScene is a lock, and a file in which all programs write when they lived.
type runScene struct {
	name, file string
}

func newRunScene(tb testing.TB) runScene {
	return runScene{tb.Name(), filepath.Join(tb.TempDir(), "lives")}
}

// args are those of a run of the test's program, which lives that long, or as
// long as its input if that is zero, and returns the status.
func (s runScene) args(url string, life time.Duration, status int, flags ...string) []string {
	args := append([]string{"run", "--url", url, s.name}, flags...)
	return append(args, "--", os.Args[0], life.String(), strconv.Itoa(status))
}

// start starts the program and waits until it has the lock.
func (s runScene) start(tb testing.TB, url string, flags ...string) *process {
	tb.Helper()
	p := s.wait(tb, url, 0, flags...)
	p.shows(tb, `running \d+\.`)
	return p
}

// wait starts the program, which may have to wait for the lock.
func (s runScene) wait(tb testing.TB, url string, life time.Duration, flags ...string) *process {
	tb.Helper()
	return start(tb, []string{runProgram + "=" + s.file}, s.args(url, life, 7, flags...)...)
}

// exclusive checks that no two programs have lived at a time, and returns their
// owners in the order of their first signs of life.
func (s runScene) exclusive(tb testing.TB) (owners []string) {
	tb.Helper()
	lives := s.lives(tb)
	if err := redistest.CheckExclusive(lives); err != nil {
		tb.Error(err)
	}
	seen := make(map[string]bool)
	for _, l := range lives {
		if !seen[l.Owner] {
			seen[l.Owner] = true
			owners = append(owners, l.Owner)
		}
	}
	return owners
}

// lives returns what the programs have written.
func (s runScene) lives(tb testing.TB) []redistest.Interval {
	tb.Helper()
	f, err := os.Open(s.file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	lives, err := redistest.ReadIntervals(f)
	if err != nil {
		tb.Fatal(err)
	}
	return lives
}

// lastSign returns when a program has last lived for sure.
func (s runScene) lastSign(tb testing.TB) (last int64) {
	tb.Helper()
	for _, l := range s.lives(tb) {
		last = max(last, l.Leave)
	}
	return last
}

// dies waits until the program is dead, and returns when that was seen.
func (s runScene) dies(tb testing.TB, pid int) int64 {
	tb.Helper()
	eventually(tb, "what the program has started is dead", func() bool { return runDead(pid) })
	return redistest.Now()
}

// told checks that the program was told to stop before it was killed. It has a
// second to say so, and cannot if the machine lets it stand still until then.
func (s runScene) told(tb testing.TB, r result, dead int64) {
	tb.Helper()
	still := time.Duration(dead - s.lastSign(tb))
	if !strings.Contains(r.out, "got terminated.") && still < 500*time.Millisecond {
		tb.Errorf("the program was not told to stop, and had last lived %v before it was dead:\n%s", still, r.out)
	}
}

// runPID is the process id of the program, which has said it.
func runPID(tb testing.TB, p *process) int {
	tb.Helper()
	pid, err := strconv.Atoi(strings.Trim(strings.TrimPrefix(p.shows(tb, `running \d+\.`), "running "), "."))
	if err != nil {
		tb.Fatal(err)
	}
	return pid
}

// runState returns the letter of a process's state, or nothing if there is no
// such process.
func runState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	if err != nil || state == "" {
		return ""
	}
	return state[:1]
}

// runDead reports whether a process has ended; a zombie has.
func runDead(pid int) bool {
	return runState(pid) == "Z" || syscall.Kill(pid, 0) != nil
}

package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// binary is the command, built as users build it.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "holdfast-command")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "holdfast")
	build := exec.Command("go", "build", "-race", "-o", binary, ".")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "the command cannot be built:", err)
		os.Exit(1)
	}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(sig) { // under nohup, say: the commands that we start do not inherit what is handled
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	code := redistest.RunTests(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// late is how long a busy machine may take for what takes no time.
const late = 40 * time.Second

// environment is that of the tests, without what would change the command, and
// with more.
func environment(more ...string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HOLDFAST_") && !strings.HasPrefix(e, "NO_COLOR=") && !strings.HasPrefix(e, "TERM=") {
			env = append(env, e)
		}
	}
	// The race detector would sleep for a second at the end of each process.
	return append(append(env, "TERM=xterm-256color", "GORACE=atexit_sleep_ms=0"), more...)
}

// patient returns the arguments of a command, and if that is one that asks a
// server only once, with more time for the answer: the usual 2 s may pass while a
// busy machine stands still.
func patient(args []string) []string {
	once := slices.Contains(args, "--count") // of watch
	if len(args) == 0 || !once && !slices.Contains([]string{"bench", "doctor", "ls", "show", "unlock"}, args[0]) {
		return args
	}
	args = slices.Clone(args)
	for i, arg := range args {
		if i > 0 && args[i-1] == "--url" && strings.HasPrefix(arg, "redis") && !strings.Contains(arg, "?") {
			args[i] += "?timeout=20s"
		}
	}
	return args
}

// A result is what a command has left.
type result struct {
	out, err string
	status   int
}

// hold runs the command to its end, without a terminal.
func hold(tb testing.TB, args ...string) result {
	tb.Helper()
	return holdWith(tb, nil, "", args...)
}

// holdWith is hold with more environment, and something to read.
func holdWith(tb testing.TB, env []string, input string, args ...string) result {
	tb.Helper()
	p := start(tb, env, args...)
	_, _ = io.WriteString(p.in, input)
	_ = p.in.Close()
	return p.wait(tb)
}

// A process is a command that runs.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err buffer
	ended    chan struct{}
}

// start runs the command in the background, without a terminal. It is killed at
// the end of the test if it still runs.
func start(tb testing.TB, env []string, args ...string) *process {
	tb.Helper()
	p := &process{cmd: exec.Command(binary, patient(args)...), ended: make(chan struct{})}
	p.cmd.Env = environment(env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal of who runs the tests is none of its business
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	p.run(tb)
	return p
}

// startTerminal runs the command in a pseudo-terminal of that size. What it
// writes to either stream is in p.out.
func startTerminal(tb testing.TB, columns, rows uint16, env []string, args ...string) *process {
	tb.Helper()
	p := &process{cmd: exec.Command(binary, patient(args)...), ended: make(chan struct{})}
	p.cmd.Env = environment(env...)
	f, err := pty.StartWithSize(p.cmd, &pty.Winsize{Cols: columns, Rows: rows})
	if err != nil {
		tb.Fatal(err)
	}
	p.in = f
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&p.out, f) // until the last process has closed it
	}()
	go func() {
		_ = p.cmd.Wait()
		<-read
		close(p.ended)
	}()
	tb.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.ended; _ = f.Close() })
	return p
}

func (p *process) run(tb testing.TB) {
	tb.Helper()
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	tb.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.ended })
}

// wait waits for the end of the command.
func (p *process) wait(tb testing.TB) result {
	tb.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * time.Minute):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.ended
		tb.Fatalf("the command does not end. It has written:\n%s\n%s", p.out.String(), p.err.String())
	}
	r := result{p.out.String(), p.err.String(), p.cmd.ProcessState.ExitCode()}
	if strings.Contains(r.err+r.out, "DATA RACE") || strings.Contains(r.err+r.out, "goroutine 1 [") {
		tb.Errorf("a race, or a stack trace:\n%s\n%s", r.out, r.err)
	}
	return r
}

// shows waits until the command has written something that matches, and
// returns it.
func (p *process) shows(tb testing.TB, pattern string) string {
	tb.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(late); ; {
		if found := re.FindString(p.out.String()); found != "" {
			return found
		}
		if found := re.FindString(p.err.String()); found != "" {
			return found
		}
		select {
		case <-p.ended:
			if !re.MatchString(p.out.String() + p.err.String()) {
				tb.Fatalf("the command has ended without %q. It has written:\n%s\n%s", pattern, p.out.String(), p.err.String())
			}
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			tb.Fatalf("no %q. The command has written:\n%s\n%s", pattern, p.out.String(), p.err.String())
		}
	}
}

// signal sends a signal.
func (p *process) signal(tb testing.TB, s os.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatal(err)
	}
}

// want checks the exit status and what was written; empty patterns match
// only nothing, "*" anything.
func (r result) want(tb testing.TB, status int, out, err string) {
	tb.Helper()
	if r.status != status || !matches(r.out, out) || !matches(r.err, err) {
		tb.Errorf("status %d, want %d\nstandard output, want %q:\n%s\nstandard error, want %q:\n%s", r.status, status, out, r.out, err, r.err)
	}
}

func matches(text, pattern string) bool {
	switch pattern {
	case "":
		return text == ""
	case "*":
		return true
	}
	return regexp.MustCompile("(?s)" + pattern).MatchString(text)
}

// A buffer can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// eventually waits until something holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(late); !holds(); {
		if time.Now().After(end) {
			tb.Fatal("it never came true: " + what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

package main_test

import (
	"bytes"
	"errors"
	"flag"
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

// binary is the path of the command, built with the race detector.
var binary string

func TestMain(m *testing.M) {
	// Most tests wait for processes and leases and use little CPU time. The command
	// line may override the number.
	_ = flag.Set("test.parallel", "8")
	dir, err := os.MkdirTemp("", "holdfast-command")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "holdfast")
	build := exec.Command("go", "build", "-race", "-o", binary, ".")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the command:", err)
		os.Exit(1)
	}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(sig) { // such as under nohup: started commands would inherit it
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	code := redistest.RunTests(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// unraced builds the command without the race detector, for what takes much CPU time.
var unraced = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(filepath.Dir(binary), "unraced")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// waitLimit is the limit for operations that are fast on an idle machine.
const waitLimit = 40 * time.Second

// environment returns the environment of the tests without the variables that
// affect the command, plus more.
func environment(more ...string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HOLDFAST_") && !strings.HasPrefix(e, "NO_COLOR=") && !strings.HasPrefix(e, "TERM=") {
			env = append(env, e)
		}
	}
	// By default the race detector sleeps for a second at the end of a process.
	return append(append(env, "TERM=xterm-256color", "GORACE=atexit_sleep_ms=0"), more...)
}

// withLongTimeout raises the timeout in --url for commands that call the server
// only once. The default of 2 s is too short for a busy machine.
func withLongTimeout(args []string) []string {
	once := slices.Contains(args, "--count") // of the command watch
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

// A result is the output and the exit status of a command.
type result struct {
	out, err string
	status   int
}

// execute runs the command without a terminal and waits for its end.
func execute(tb testing.TB, args ...string) result {
	tb.Helper()
	return executeWith(tb, nil, "", args...)
}

// executeWith is execute with more environment and input.
func executeWith(tb testing.TB, env []string, input string, args ...string) result {
	tb.Helper()
	p := start(tb, env, args...)
	_, _ = io.WriteString(p.in, input)
	_ = p.in.Close()
	return p.wait(tb)
}

// A process is a running command.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err buffer
	ended    chan struct{}
}

// start starts the command without a terminal. The command is killed at the end of
// the test.
func start(tb testing.TB, env []string, args ...string) *process {
	tb.Helper()
	return startProgram(tb, binary, env, args...)
}

func startProgram(tb testing.TB, program string, env []string, args ...string) *process {
	tb.Helper()
	p := &process{cmd: exec.Command(program, withLongTimeout(args)...), ended: make(chan struct{})}
	p.cmd.Env = environment(env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = detached()
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	p.run(tb)
	return p
}

// startTerminal starts the command in a pseudo-terminal. The output of both streams
// is in p.out.
func startTerminal(tb testing.TB, columns, rows uint16, env []string, args ...string) *process {
	tb.Helper()
	p := &process{cmd: exec.Command(binary, withLongTimeout(args)...), ended: make(chan struct{})}
	p.cmd.Env = environment(env...)
	f, err := pty.StartWithSize(p.cmd, &pty.Winsize{Cols: columns, Rows: rows})
	if err != nil {
		tb.Fatal(err)
	}
	p.in = f
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&p.out, f) // until the last process has closed the terminal
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
		tb.Fatalf("the command does not end. Its output:\n%s\n%s", p.out.String(), p.err.String())
	}
	r := result{p.out.String(), p.err.String(), p.cmd.ProcessState.ExitCode()}
	if strings.Contains(r.err+r.out, "DATA RACE") || strings.Contains(r.err+r.out, "goroutine 1 [") {
		tb.Errorf("data race or stack trace:\n%s\n%s", r.out, r.err)
	}
	return r
}

// awaitOutput waits until the output of the command matches the pattern, and returns
// the match.
func (p *process) awaitOutput(tb testing.TB, pattern string) string {
	tb.Helper()
	re := regexp.MustCompile(pattern)
	found, ended := "", false
	redistest.Poll(waitLimit, func() bool {
		select {
		case <-p.ended:
			ended = true
		default:
		}
		if found = re.FindString(p.out.String()); found == "" {
			found = re.FindString(p.err.String())
		}
		return found != "" || ended
	})
	if found == "" {
		tb.Fatalf("no %q in the output of the command, which has ended: %v\n%s\n%s", pattern, ended, p.out.String(), p.err.String())
	}
	return found
}

// signal sends a signal to the command.
func (p *process) signal(tb testing.TB, s os.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatal(err)
	}
}

// want checks the exit status and the output. An empty pattern matches only empty
// output, "*" matches any output.
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

// A buffer is a bytes.Buffer for concurrent use.
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

// eventually waits until a condition is true.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	if !redistest.Poll(waitLimit, holds) {
		tb.Fatal("condition not met: " + what)
	}
}

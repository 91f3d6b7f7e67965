//go:build unix

package main_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// runType types keys on the terminal of a process.
func runType(tb testing.TB, p *process, keys string) {
	tb.Helper()
	if _, err := io.WriteString(p.in, keys); err != nil {
		tb.Fatal(err)
	}
}

// The keys of a terminal.
const (
	ctrlC = "\x03"
	ctrlD = "\x04" // the end of the input
	ctrlZ = "\x1a"
)

// TestRunTerminal checks that a program can read from the terminal, and that Ctrl-C
// and other signals reach it once.
func TestRunTerminal(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	p := startTerminal(t, 80, 24, []string{runProgram + "=" + rt.file}, rt.args(s.URL(), 0, 7)...)
	p.awaitOutput(t, `running \d+\.`)
	runType(t, p, ctrlC)
	p.awaitOutput(t, `got interrupt\.`)
	p.signal(t, syscall.SIGTERM)
	p.awaitOutput(t, `got terminated\.`)
	runType(t, p, ctrlD)
	r := p.wait(t)
	r.want(t, 7, "*", "")
	if n := strings.Count(r.out, "got "); n != 2 {
		t.Errorf("the program got %d signals, want 2:\n%s", n, r.out)
	}
}

// TestRunTerminalInterrupt checks that Ctrl-C ends the program and that its status is
// passed on.
func TestRunTerminalInterrupt(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := startTerminal(t, 80, 24, nil, "run", "--url", s.URL(), t.Name(), "--", "cat")
	runType(t, p, "hello\n")
	p.awaitOutput(t, "hello\r\n(?s:.*)hello\r\n") // once from the terminal, once from cat; a message may come in between
	runType(t, p, ctrlC)
	p.wait(t).want(t, 130, "*", "")
	if s.Int(t, "EXISTS", t.Name()) != 0 {
		t.Error("the lock was not released")
	}
}

// TestRunTerminalHangsUp checks a terminal without a shell that hangs up. It signals
// only holdfast, which must end the program.
func TestRunTerminalHangsUp(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	started := t.TempDir() + "/started"
	p := &process{ended: make(chan struct{})}
	p.cmd = exec.Command(binary, "run", "--url", s.URL(), t.Name(), "--", "sh", "-c", "touch "+started+"; exec sleep 60")
	p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = environment(), tty, tty, tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.run(t)
	_ = tty.Close()
	eventually(t, "the program runs", func() bool { _, err := os.Stat(started); return err == nil })
	_ = terminal.Close()
	select {
	case <-p.ended:
	case <-time.After(waitLimit):
		t.Fatal("the program still runs")
	}
	p.wait(t).want(t, 129, "*", "")
	if s.Int(t, "EXISTS", t.Name()) != 0 {
		t.Error("the lock was not released")
	}
}

// TestRunTerminalJobs runs holdfast in a shell with job control. A program can be
// stopped and resumed, can be part of a pipeline, and leaves the terminal unchanged.
// The shell itself runs under a lock.
func TestRunTerminalJobs(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	shell := startTerminal(t, 200, 24, []string{"HOLDFAST_URL=" + s.URL(), "PS1=", "ENV="}, "run", t.Name(), "--", "sh", "-i")
	say := func(i int) string { return fmt.Sprintf("; echo status $? step $((%d+1000))\n", i) }
	run := binary + " run " + t.Name() + "-inner"

	runType(t, shell, run+" -- sh -c 'echo running $$.; exec cat'"+say(1))
	cat := runPID(t, shell)
	runType(t, shell, "one\n")
	shell.awaitOutput(t, "one\r\n(?s:.*)one\r\n")
	runType(t, shell, ctrlZ)
	shell.awaitOutput(t, "Stopped")
	shell.awaitOutput(t, `status \d+ step 1001`)                                 // otherwise it could mix with the output of fg
	eventually(t, "cat is stopped", func() bool { return runState(cat) == "T" }) // otherwise cat could still read
	runType(t, shell, "fg"+say(2))
	shell.awaitOutput(t, `\nfg; .*\n.* -- sh`) // the shell prints the resumed command
	runType(t, shell, "two\n")
	shell.awaitOutput(t, "two\r\n(?s:.*)two\r\n")
	runType(t, shell, ctrlD)
	shell.awaitOutput(t, "status 0 step 1002")

	// The last program of a pipeline can read from the terminal.
	runType(t, shell, run+` -- echo from program | sh -c 'cat; read line </dev/tty; echo "read $line."'`+say(3))
	shell.awaitOutput(t, "\nfrom program")
	runType(t, shell, "keys\n")
	shell.awaitOutput(t, `read keys\.`)
	shell.awaitOutput(t, "status 0 step 1003")

	runType(t, shell, "exit 5\n")
	shell.wait(t).want(t, 5, "*", "")
}

// TestRunTerminalForced checks that the descendants of a program at a terminal are
// killed.
func TestRunTerminalForced(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	p := startTerminal(t, 80, 24, []string{runProgram + "=" + rt.file}, "run", "--url", s.URL(), rt.name, "--watchdog", "12s",
		"--", "sh", "-c", "("+os.Args[0]+" 1m 0 & wait) & wait")
	pid := runPID(t, p)
	s.Do(t, "DEL", rt.name)
	dead := rt.awaitExit(t, pid)
	r := p.wait(t)
	r.want(t, 121, "lost: not owner; the program was stopped", "")
	rt.wantTerminated(t, r, dead)
}

// TestRunTerminalWaits checks that a command that waits at a terminal prints the
// holder.
func TestRunTerminalWaits(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	url := s.URL() + "?timeout=20s" // it reads the holder only once
	holder := rt.start(t, s.URL())
	p := startTerminal(t, 200, 24, nil, "run", "--url", url, rt.name, "--", "echo", "my turn")
	p.awaitOutput(t, `waiting for lock TestRunTerminalWaits: held by [0-9a-f-]{36}:\d+, expires in \d+s unless renewed`)
	holder.in.Close()
	p.awaitOutput(t, "my turn")
	p.wait(t).want(t, 0, "*", "")

	holder = rt.start(t, s.URL())
	p = startTerminal(t, 200, 24, nil, "run", "--url", url, rt.name, "--", "echo", "my turn")
	p.awaitOutput(t, "waiting for lock")
	runType(t, p, ctrlC)
	p.wait(t).want(t, 130, "*", "")
	holder.in.Close()
	holder.wait(t).want(t, 7, "*", "")
}

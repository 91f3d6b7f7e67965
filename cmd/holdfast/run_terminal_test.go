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

// runType types on the terminal of a process.
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

// At a terminal a program reads from it, and Ctrl-C reaches it once, as does a
// signal that somebody else sends.
func TestRunTerminal(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	p := startTerminal(t, 80, 24, []string{runProgram + "=" + scene.file}, scene.args(s.URL(), 0, 7)...)
	p.shows(t, `running \d+\.`)
	runType(t, p, ctrlC)
	p.shows(t, `got interrupt\.`)
	p.signal(t, syscall.SIGTERM)
	p.shows(t, `got terminated\.`)
	runType(t, p, ctrlD)
	r := p.wait(t)
	r.want(t, 7, "*", "")
	if n := strings.Count(r.out, "got "); n != 2 {
		t.Errorf("%d signals have come, not 2:\n%s", n, r.out)
	}
}

// Ctrl-C ends a program that obeys, and its status is passed on.
func TestRunTerminalInterrupt(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := startTerminal(t, 80, 24, nil, "run", "--url", s.URL(), t.Name(), "--", "cat")
	runType(t, p, "hello\n")
	p.shows(t, "hello\r\n(?s:.*)hello\r\n") // once by the terminal, once by cat; what took long is told in between
	runType(t, p, ctrlC)
	p.wait(t).want(t, 130, "*", "")
	if s.Int(t, "EXISTS", t.Name()) != 0 {
		t.Error("the lock was not given back")
	}
}

// A terminal that hangs up tells us alone if it has no shell.
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
	case <-time.After(late):
		t.Fatal("the program goes on")
	}
	p.wait(t).want(t, 129, "*", "")
	if s.Int(t, "EXISTS", t.Name()) != 0 {
		t.Error("the lock was not given back")
	}
}

// In a shell with job control a program can be stopped and go on, can be in a
// pipeline, and leaves the terminal as it was. The shell is itself run under a
// lock.
func TestRunTerminalJobs(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	shell := startTerminal(t, 200, 24, []string{"HOLDFAST_URL=" + s.URL(), "PS1=", "ENV="}, "run", t.Name(), "--", "sh", "-i")
	say := func(i int) string { return fmt.Sprintf("; echo status $? step $((%d+1000))\n", i) }
	run := binary + " run " + t.Name() + "-inner"

	runType(t, shell, run+" -- sh -c 'echo running $$.; exec cat'"+say(1))
	cat := runPID(t, shell)
	runType(t, shell, "one\n")
	shell.shows(t, "one\r\n(?s:.*)one\r\n")
	runType(t, shell, ctrlZ)
	shell.shows(t, "Stopped")
	shell.shows(t, `status \d+ step 1001`)                                              // else that comes between what is typed and what fg says
	eventually(t, "cat, too, has stopped", func() bool { return runState(cat) == "T" }) // else it might still read
	runType(t, shell, "fg"+say(2))
	shell.shows(t, `\nfg; .*\n.* -- sh`) // the shell says what goes on
	runType(t, shell, "two\n")
	shell.shows(t, "two\r\n(?s:.*)two\r\n")
	runType(t, shell, ctrlD)
	shell.shows(t, "status 0 step 1002")

	// Whoever reads keys at the end of a pipeline still gets them.
	runType(t, shell, run+` -- echo from program | sh -c 'cat; read line </dev/tty; echo "read $line."'`+say(3))
	shell.shows(t, "\nfrom program")
	runType(t, shell, "keys\n")
	shell.shows(t, `read keys\.`)
	shell.shows(t, "status 0 step 1003")

	runType(t, shell, "exit 5\n")
	shell.wait(t).want(t, 5, "*", "")
}

// At a terminal, too, what the program has started is killed with it.
func TestRunTerminalForced(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	p := startTerminal(t, 80, 24, []string{runProgram + "=" + scene.file}, "run", "--url", s.URL(), scene.name, "--watchdog", "12s",
		"--", "sh", "-c", "("+os.Args[0]+" 1m 0 & wait) & wait")
	pid := runPID(t, p)
	s.Do(t, "DEL", scene.name)
	dead := scene.dies(t, pid)
	r := p.wait(t)
	r.want(t, 121, "lost: not owner; the program was stopped", "")
	scene.told(t, r, dead)
}

// Who waits at a terminal is told for whom.
func TestRunTerminalWaits(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	url := s.URL() + "?timeout=20s" // it asks once for whom
	holder := scene.start(t, s.URL())
	p := startTerminal(t, 200, 24, nil, "run", "--url", url, scene.name, "--", "echo", "my turn")
	p.shows(t, `waiting for lock TestRunTerminalWaits: held by [0-9a-f-]{36}:\d+, expires in \d+s unless renewed`)
	holder.in.Close()
	p.shows(t, "my turn")
	p.wait(t).want(t, 0, "*", "")

	holder = scene.start(t, s.URL())
	p = startTerminal(t, 200, 24, nil, "run", "--url", url, scene.name, "--", "echo", "my turn")
	p.shows(t, "waiting for lock")
	runType(t, p, ctrlC)
	p.wait(t).want(t, 130, "*", "")
	holder.in.Close()
	holder.wait(t).want(t, 7, "*", "")
}

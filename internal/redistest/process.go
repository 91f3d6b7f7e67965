package redistest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// workerEnv is the variable that tells a test binary to be a worker.
const workerEnv = "HOLDFAST_WORKER"

// Process is a worker process of a test.
type Process struct {
	tb    testing.TB
	proc  *child
	stdin *os.File
	lines chan string
}

// WorkerName returns the name that the process was given by [Worker], or ""
// in an ordinary run of the test binary. TestMain calls it to decide what to
// do.
func WorkerName() string { return os.Getenv(workerEnv) }

// Worker runs the test binary again, as the worker of the given name and with
// env, of the form "key=value", added to its environment. The cleanup of tb
// kills the process and logs its standard error.
func Worker(tb testing.TB, name string, env ...string) *Process {
	tb.Helper()
	p, err := startWorker(tb, name, env)
	if err != nil {
		tb.Fatalf("redistest: cannot start worker %q: %v", name, err)
	}
	return p
}

// WorkerCommand returns the command that runs this program again, as the worker of the given
// name.
func WorkerCommand(ctx context.Context, name string) (*exec.Cmd, error) {
	bin, err := os.Executable()
	// A binary whose TestMain does not handle workers must run no test. Otherwise
	// it would also run the test that starts the worker.
	cmd := exec.CommandContext(ctx, bin, "-test.run=^$")
	cmd.Env = append(os.Environ(), workerEnv+"="+name)
	return cmd, err
}

func startWorker(tb testing.TB, name string, env []string) (*Process, error) {
	cmd, err := WorkerCommand(context.Background(), name)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, env...)

	// The parent's copies of the worker's ends are closed on return. They are
	// files and not writers, so that no goroutine has to copy.
	stderr, err := os.Create(filepath.Join(tb.TempDir(), "stderr"))
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer childIn.Close()
	stdout, childOut, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return nil, err
	}
	defer childOut.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, stderr

	proc, err := spawn(cmd)
	if err != nil {
		stdin.Close()
		stdout.Close()
		return nil, err
	}
	p := &Process{tb: tb, proc: proc, stdin: stdin, lines: make(chan string)}
	quit := make(chan struct{})
	go p.readLines(stdout, quit)
	tb.Cleanup(func() {
		proc.kill()
		close(quit)
		stdin.Close()
		stdout.Close()
		for range p.lines { // until the reader has ended
		}
		if text, _ := os.ReadFile(stderr.Name()); len(text) > 0 {
			tb.Logf("stderr of worker %q:\n%s", name, text)
		}
	})
	return p, nil
}

// readLines sends the lines of stdout until it ends or quit is closed.
func (p *Process) readLines(stdout *os.File, quit <-chan struct{}) {
	defer close(p.lines)
	r := bufio.NewReader(stdout)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			select {
			case p.lines <- strings.TrimSuffix(line, "\n"):
			case <-quit:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Lines returns the lines that the worker writes to its standard output. The
// channel is closed at the end of the output. If the lines are not received, the
// worker blocks when the pipe is full.
func (p *Process) Lines() <-chan string { return p.lines }

// Send writes a line to the standard input of the worker. The test fails if
// the worker has ended.
func (p *Process) Send(line string) {
	p.tb.Helper()
	if _, err := fmt.Fprintln(p.stdin, line); err != nil {
		p.tb.Errorf("redistest: cannot send to a worker: %v", err)
	}
}

// Kill kills the worker and waits until it has ended.
func (p *Process) Kill() { p.proc.kill() }

// Pause stops the worker, like a long garbage collection or a suspended machine.
// It returns when the process no longer runs.
func (p *Process) Pause() {
	p.tb.Helper()
	if err := p.proc.pause(); err != nil {
		p.tb.Fatalf("redistest: cannot pause a worker: %v", err)
	}
}

// Resume ends a Pause.
func (p *Process) Resume() {
	p.tb.Helper()
	if err := p.proc.resume(); err != nil {
		p.tb.Fatalf("redistest: cannot resume a worker: %v", err)
	}
}

// Wait waits for the end of the worker and returns nil if it exited with
// status 0.
func (p *Process) Wait() error {
	<-p.proc.done
	return p.proc.err
}

// Package child runs programs that do not outlive this process, and ends them
// together with what they have started.
package child

import (
	"os"
	"os/exec"
	"syscall"
)

// A Child is a program that was started. Its methods are for one goroutine at a
// time.
type Child struct {
	cmd    *exec.Cmd
	own    bool // it leads a process group of its own
	exited chan struct{}
	family map[int]*os.Process // see relatives
}

// Start starts a program, in a process group of its own if wanted: then the
// keys of the terminal do not reach it, and it cannot read from there. On Linux
// it is killed should this process die.
func Start(cmd *exec.Cmd, own bool) (*Child, error) {
	c := &Child{cmd: cmd, own: own, exited: make(chan struct{})}
	prepare(cmd, own)
	started := make(chan error)
	go func() {
		lockThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.family = map[int]*os.Process{cmd.Process.Pid: cmd.Process}
	return c, nil
}

// Exited is closed when the program has ended, whatever may be left of what it
// has started.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Status returns the exit status of a program that has ended, as a shell would:
// that of one that was killed is 128 and the number of the signal.
func (c *Child) Status() int {
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the program alone.
func (c *Child) Signal(s os.Signal) { _ = c.cmd.Process.Signal(s) }

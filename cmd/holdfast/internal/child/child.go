// Package child runs programs that do not outlive this process. It can signal a
// program together with its descendants.
package child

import (
	"os"
	"os/exec"
	"syscall"
)

// A Child is a started program. Its methods must not be called concurrently.
type Child struct {
	cmd         *exec.Cmd
	ownGroup    bool // it has its own process group
	exited      chan struct{}
	descendants map[int]*os.Process // the program and its known descendants, by process id
}

// Start starts a program. If ownGroup is true, the program gets its own process
// group: then terminal keys such as Ctrl-C do not reach it, and it cannot read from
// the terminal. On Linux the program is killed when this process dies.
func Start(cmd *exec.Cmd, ownGroup bool) (*Child, error) {
	c := &Child{cmd: cmd, ownGroup: ownGroup, exited: make(chan struct{})}
	prepare(cmd, ownGroup)
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
	c.descendants = map[int]*os.Process{cmd.Process.Pid: cmd.Process}
	return c, nil
}

// Exited returns a channel that is closed when the program has ended. Its
// descendants may still run.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Status returns the exit status of a program that has ended, as a shell does: 128
// plus the number of the signal if it was killed.
func (c *Child) Status() int {
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the program, not to its descendants.
func (c *Child) Signal(s os.Signal) { _ = c.cmd.Process.Signal(s) }

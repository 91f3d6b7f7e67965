//go:build !unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

// Signals are the signals that a parent forwards to a program.
var Signals = []os.Signal{os.Interrupt, syscall.SIGTERM}

func prepare(*exec.Cmd, bool) {}

// Forward does nothing: the console sends its signals to the program itself.
func (*Child) Forward(os.Signal) {}

// SignalAll kills the program: this system has no other signals and no groups.
func (c *Child) SignalAll(os.Signal) { _ = c.cmd.Process.Kill() }

// Alive reports whether the program runs.
func (c *Child) Alive() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// Terminal reports whether this process has a controlling terminal.
func Terminal() bool { return true }

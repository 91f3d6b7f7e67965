//go:build !unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

// Signals are those that one program passes on to another.
var Signals = []os.Signal{os.Interrupt, syscall.SIGTERM}

func prepare(*exec.Cmd, bool) {}

// Forward passes on a signal that this process has got. Here the console has
// sent it to the program as well.
func (*Child) Forward(os.Signal) {}

// SignalAll ends the program: there is no other signal here, and no group.
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

// Terminal reports whether this process belongs to a terminal.
func Terminal() bool { return true }

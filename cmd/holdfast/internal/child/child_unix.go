//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals are those that one program passes on to another.
var Signals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

func prepare(cmd *exec.Cmd, own bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: own}
	endWithParent(cmd.SysProcAttr)
}

// Forward passes on a signal that this process has got. Those that end things
// go to all that the program has started, as the terminal would send them; the
// others mean something to the program alone. What the terminal has sent by
// itself to its foreground group is not sent again.
func (c *Child) Forward(s os.Signal) {
	switch s {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
		if !c.own && foreground() && (s != syscall.SIGHUP || !leader()) {
			return
		}
		c.SignalAll(s)
	case syscall.SIGTERM:
		c.SignalAll(s)
	default:
		c.Signal(s)
	}
}

// SignalAll sends a signal to the program and to what it has started: to its
// group, if it has one, and to those outside who are known to descend from it.
func (c *Child) SignalAll(s os.Signal) {
	sig := s.(syscall.Signal)
	for c.relatives() && sig == syscall.SIGKILL {
		c.send(syscall.SIGSTOP) // so that none has children behind our back
	}
	c.send(sig)
}

// Alive reports whether anything is left of the program and of what it has
// started.
func (c *Child) Alive() bool {
	c.relatives()
	return len(c.family) > 0 || c.own && syscall.Kill(-c.cmd.Process.Pid, 0) == nil
}

func (c *Child) send(sig syscall.Signal) {
	group := -1
	if c.own {
		group = c.cmd.Process.Pid
		_ = syscall.Kill(-group, sig)
	}
	for pid, p := range c.family {
		if g, err := syscall.Getpgid(pid); err != nil || g != group {
			_ = p.Signal(sig)
		}
	}
}

// Terminal reports whether this process belongs to a terminal, whatever its
// standard input is.
func Terminal() bool { return terminalGroup() >= 0 }

// foreground reports whether the keys of the terminal reach this process. It
// is also true for a terminal that has just hung up.
func foreground() bool {
	group := terminalGroup()
	return group <= 0 || group == syscall.Getpgrp()
}

// leader reports whether the session is that of this process. A terminal that
// hangs up tells its leader alone.
func leader() bool {
	session, err := unix.Getsid(0)
	return err == nil && session == os.Getpid()
}

// terminalGroup returns the group that the terminal sends its signals to, zero
// if it does not say, and -1 if there is no terminal.
func terminalGroup() int {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return -1
	}
	defer tty.Close() //nolint:errcheck // it was only asked
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

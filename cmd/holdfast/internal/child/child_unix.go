//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals are the signals that a parent forwards to a program.
var Signals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

func prepare(cmd *exec.Cmd, ownGroup bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: ownGroup}
	endWithParent(cmd.SysProcAttr)
}

// Forward forwards a signal that this process has received. Signals that end
// programs go to the program and its descendants, as a terminal does. Other signals
// go to the program only. A signal that the terminal has already sent to its
// foreground group is not sent again.
func (c *Child) Forward(s os.Signal) {
	switch s {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
		if !c.ownGroup && foreground() && (s != syscall.SIGHUP || !leader()) {
			return
		}
		c.SignalAll(s)
	case syscall.SIGTERM:
		c.SignalAll(s)
	default:
		c.Signal(s)
	}
}

// SignalAll sends a signal to the program and its descendants: to its process
// group, if it has its own, and to known descendants in other groups.
func (c *Child) SignalAll(s os.Signal) {
	sig := s.(syscall.Signal)
	for c.findDescendants() && sig == syscall.SIGKILL {
		c.send(syscall.SIGSTOP) // a stopped process cannot start others
	}
	c.send(sig)
}

// Alive reports whether the program or a descendant still runs.
func (c *Child) Alive() bool {
	c.findDescendants()
	return len(c.descendants) > 0 || c.ownGroup && syscall.Kill(-c.cmd.Process.Pid, 0) == nil
}

func (c *Child) send(sig syscall.Signal) {
	group := -1
	if c.ownGroup {
		group = c.cmd.Process.Pid
		_ = syscall.Kill(-group, sig)
	}
	for pid, p := range c.descendants {
		if g, err := syscall.Getpgid(pid); err != nil || g != group {
			_ = p.Signal(sig)
		}
	}
}

// Terminal reports whether this process has a controlling terminal. It does not
// depend on standard input.
func Terminal() bool { return terminalGroup() >= 0 }

// foreground reports whether this process is in the foreground group of the
// terminal. It is also true if the terminal has just hung up.
func foreground() bool {
	group := terminalGroup()
	return group <= 0 || group == syscall.Getpgrp()
}

// leader reports whether this process is the session leader. A terminal that hangs
// up signals only the session leader.
func leader() bool {
	session, err := unix.Getsid(0)
	return err == nil && session == os.Getpid()
}

// terminalGroup returns the foreground process group of the terminal, 0 if it is
// unknown, and -1 if there is no terminal.
func terminalGroup() int {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return -1
	}
	defer tty.Close() //nolint:errcheck // only read
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

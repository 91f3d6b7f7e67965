package server

import (
	"os/exec"
	"syscall"
)

// EndWithParent makes a process end even if this program is killed.
func EndWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

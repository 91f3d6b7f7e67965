package main

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the server end even if this program is killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

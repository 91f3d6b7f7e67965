package interop

import "syscall"

// dieWithParent makes the kernel kill a peer when the test process dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

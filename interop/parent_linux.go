package interop

import "syscall"

// dieWithParent keeps a peer from outliving a test that was killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

package child

import (
	"runtime"
	"syscall"
)

// endWithParent makes the kernel kill a child when its parent dies.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// lockThread keeps the thread that starts a child. The kernel kills the child when
// this thread ends, not when the process ends.
func lockThread() { runtime.LockOSThread() }

package child

import (
	"runtime"
	"syscall"
)

// endWithParent makes a child end even if this process is killed.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// lockThread keeps the thread that starts a child for as long as the child
// lives: it ends with the thread, not with the process.
func lockThread() { runtime.LockOSThread() }

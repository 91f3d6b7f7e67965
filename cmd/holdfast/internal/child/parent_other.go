//go:build !linux

package child

import "syscall"

// endWithParent does nothing: only Linux can kill a process when its parent dies.
func endWithParent(*syscall.SysProcAttr) {}

func lockThread() {}

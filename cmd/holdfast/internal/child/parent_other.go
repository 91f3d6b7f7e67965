//go:build !linux

package child

import "syscall"

// endWithParent does nothing: only Linux can tie the life of a process to that
// of its parent.
func endWithParent(*syscall.SysProcAttr) {}

func lockThread() {}

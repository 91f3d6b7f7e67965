//go:build unix

package main_test

import "syscall"

// detached returns the attributes of a process that has no terminal.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

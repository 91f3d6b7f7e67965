//go:build !unix

package main_test

import "syscall"

// detached returns the attributes of a process. It shares the terminal of the tests.
func detached() *syscall.SysProcAttr { return nil }

//go:build !linux

package server

import "os/exec"

// EndWithParent does nothing: only Linux can tie the life of a process to that
// of its parent.
func EndWithParent(*exec.Cmd) {}

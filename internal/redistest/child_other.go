//go:build !linux

package redistest

import "os/exec"

// dieWithParent does nothing: only Linux can tie the life of a process to that
// of its parent.
func dieWithParent(*exec.Cmd) {}

// awaitStop does nothing: it assumes that a process stops soon after the signal.
func awaitStop(int) error { return nil }

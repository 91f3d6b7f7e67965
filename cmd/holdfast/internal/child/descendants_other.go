//go:build unix && !linux

package child

import "syscall"

// findDescendants finds no descendants: only Linux lists the parents of all processes in
// a simple way.
func (c *Child) findDescendants() bool {
	if c.cmd.Process.Signal(syscall.Signal(0)) != nil {
		clear(c.descendants)
	}
	return false
}

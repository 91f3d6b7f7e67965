//go:build unix && !linux

package child

import "syscall"

// relatives finds none: only Linux says in a simple way who descends from whom.
func (c *Child) relatives() bool {
	if c.cmd.Process.Signal(syscall.Signal(0)) != nil {
		clear(c.family)
	}
	return false
}

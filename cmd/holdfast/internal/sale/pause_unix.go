//go:build unix

package sale

import (
	"os"
	"syscall"
)

// CanPause reports whether this system can stop processes.
const CanPause = true

func pause(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

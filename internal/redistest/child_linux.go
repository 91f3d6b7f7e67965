package redistest

import (
	"os"
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the process when the thread that starts it
// ends, however the test binary ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStop waits until every thread of a child that was sent SIGSTOP has
// stopped. The signal alone leaves a moment in which the child still works.
func awaitStop(pid int) error {
	const (
		byPID   = 1         // P_PID
		stopped = 0x2       // WSTOPPED
		exited  = 0x4       // WEXITED
		peek    = 0x1000000 // WNOWAIT: leave the exit status to the supervisor
	)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, stopped|exited|peek, 0, 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		case syscall.ECHILD:
			return os.ErrProcessDone
		default:
			return os.NewSyscallError("waitid", errno)
		}
	}
}

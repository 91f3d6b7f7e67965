package child

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	bootClock = 7 // CLOCK_BOOTTIME, which includes the time that the machine sleeps
	absolute  = 1 // TIMER_ABSTIME
)

// A Fuse is a kernel timer that kills this process, and with it the programs that
// it has started. It also works while the process is stopped. A nil Fuse does
// nothing.
type Fuse struct{ id int32 }

// sigevent and itimerspec are structures of the kernel.
type sigevent struct {
	value         uintptr
	signal, where int32
	_             [64 - 8 - unsafe.Sizeof(uintptr(0))]byte
}

type itimerspec struct{ every, at syscall.Timespec }

// NewFuse returns a fuse without a deadline, or nil if the kernel has no such timer.
func NewFuse() *Fuse {
	f := &Fuse{}
	event := sigevent{signal: int32(syscall.SIGKILL)}
	_, _, errno := syscall.RawSyscall(syscall.SYS_TIMER_CREATE, bootClock, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&f.id)))
	if errno != 0 {
		return nil
	}
	return f
}

// Set sets the time at which the process is killed. It replaces an earlier time. If
// end is in the past, it does nothing.
func (f *Fuse) Set(end time.Time) {
	var now syscall.Timespec
	// Read the clock first: if the process is stopped in between, the fuse fires
	// early rather than late.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, bootClock, uintptr(unsafe.Pointer(&now)), 0)
	if left := time.Until(end); errno == 0 && left > 0 {
		f.set(syscall.NsecToTimespec(now.Nano() + left.Nanoseconds()))
	}
}

// Out disables the fuse.
func (f *Fuse) Out() { f.set(syscall.Timespec{}) }

func (f *Fuse) set(at syscall.Timespec) {
	if f != nil {
		spec := itimerspec{at: at}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMER_SETTIME, uintptr(f.id), absolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	}
}

package child

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	bootClock = 7 // CLOCK_BOOTTIME, which also counts the time that the machine sleeps
	absolute  = 1 // TIMER_ABSTIME
)

// A Fuse kills this process, and with it its children, when its time is over.
// The kernel does it, so that it also happens while the process is stopped,
// when nothing in it could act. A nil Fuse does nothing.
type Fuse struct{ id int32 }

// sigevent and itimerspec are the kernel's.
type sigevent struct {
	value         uintptr
	signal, where int32
	_             [64 - 8 - unsafe.Sizeof(uintptr(0))]byte
}

type itimerspec struct{ every, at syscall.Timespec }

// NewFuse returns a fuse that does not burn yet, or nil if the kernel has none.
func NewFuse() *Fuse {
	f := &Fuse{}
	event := sigevent{signal: int32(syscall.SIGKILL)}
	_, _, errno := syscall.RawSyscall(syscall.SYS_TIMER_CREATE, bootClock, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&f.id)))
	if errno != 0 {
		return nil
	}
	return f
}

// Set lets the fuse burn until then, instead of what was set before. A time that
// has passed changes nothing.
func (f *Fuse) Set(end time.Time) {
	var now syscall.Timespec
	// The clock first: if the process is stopped in between, the fuse is short.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, bootClock, uintptr(unsafe.Pointer(&now)), 0)
	if left := time.Until(end); errno == 0 && left > 0 {
		f.set(syscall.NsecToTimespec(now.Nano() + left.Nanoseconds()))
	}
}

// Out puts the fuse out.
func (f *Fuse) Out() { f.set(syscall.Timespec{}) }

func (f *Fuse) set(at syscall.Timespec) {
	if f != nil {
		spec := itimerspec{at: at}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMER_SETTIME, uintptr(f.id), absolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	}
}

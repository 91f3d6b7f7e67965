package redistest

import (
	"syscall"
	"unsafe"
)

// Now returns the time in nanoseconds of a clock that all processes of the
// machine share and that never goes back. It asks the kernel, because the
// monotonic reading inside a time.Time counts from the start of the process.
func Now() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic("redistest: clock_gettime: " + errno.Error())
	}
	return ts.Nano()
}

//go:build unix

package section

import (
	"os"
	"syscall"
	"unsafe"
)

// Sharing reports whether processes can share sections on this system.
const Sharing = true

// Create returns a file for n sections that processes can share. The file has no
// name, so it is gone when the last process has closed it.
func Create(n int) (*os.File, error) {
	f, err := os.CreateTemp("", "holdfast-section-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	if err := f.Truncate(int64(n) * int64(unsafe.Sizeof(Section{}))); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Map returns the n sections in a file. The memory is shared until the process ends.
func Map(f *os.File, n int) ([]Section, error) {
	data, err := syscall.Mmap(int(f.Fd()), 0, n*int(unsafe.Sizeof(Section{})), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return unsafe.Slice((*Section)(unsafe.Pointer(&data[0])), n), nil
}

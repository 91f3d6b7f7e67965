//go:build unix

package load

import (
	"os"
	"syscall"
	"unsafe"
)

// Sharing reports whether processes can share memory on this system. Otherwise exclusion is
// checked inside each process only.
const Sharing = true

// mapMemory returns the memory in a file. It is shared until the process ends.
func mapMemory(f *os.File, s size) (*memory, error) {
	bytes := s.lines() * int(unsafe.Sizeof(line{}))
	if err := f.Truncate(int64(bytes)); err != nil {
		return nil, err
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &memory{unsafe.Slice((*line)(unsafe.Pointer(&data[0])), s.lines()), s}, nil
}

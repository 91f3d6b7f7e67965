//go:build unix

package main

import (
	"os"
	"syscall"
	"unsafe"
)

const memorySize = int64(unsafe.Sizeof(memory{}))

// attach maps the file. The mapping lasts until detach or the end of the process.
func attach(path string) (*memory, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := syscall.Mmap(int(f.Fd()), 0, int(memorySize), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*memory)(unsafe.Pointer(&data[0])), nil
}

// detach ends the mapping.
func (m *memory) detach() error {
	return os.NewSyscallError("munmap", syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(m)), memorySize)))
}

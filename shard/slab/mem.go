//go:build linux || darwin

package slab

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix" // mmap by address: package syscall keeps a locked map of all mappings
)

var pageSize = os.Getpagesize()

// mapMemory returns size bytes of zeroed private memory, or nil if the kernel
// has none to give (address space, overcommit or vm.max_map_count).
func mapMemory(size int) unsafe.Pointer {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	smallPages(p, size)
	return p
}

// unmapMemory gives back what mapMemory returned. It reports false when the
// kernel refuses: taking a mapping out of the middle of merged neighbours
// needs one mapping more, and vm.max_map_count may not allow it.
func unmapMemory(p unsafe.Pointer, size int) bool {
	return unix.MunmapPtr(p, uintptr(size)) == nil
}

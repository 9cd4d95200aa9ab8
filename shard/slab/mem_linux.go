package slab

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// smallPages asks for no transparent huge pages. Linux merges neighbouring regions into one
// mapping; with huge pages "always" one byte touched would make 2 MiB resident, across classes and
// shards that hold next to nothing. A kernel without huge pages answers EINVAL, which is as good.
func smallPages(p unsafe.Pointer, size int) {
	_ = unix.Madvise(unsafe.Slice((*byte)(p), size), unix.MADV_NOHUGEPAGE)
}

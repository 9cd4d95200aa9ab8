module polystalk

go 1.26.0

// mmap and munmap by address for shard/slab: package syscall keeps a locked
// map of every mapping.
require golang.org/x/sys v0.49.0

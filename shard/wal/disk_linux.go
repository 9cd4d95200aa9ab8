package wal

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync syncs a file without its times, which would cost a write to the file system's own
// journal.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

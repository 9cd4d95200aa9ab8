package wal

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync leaves out the times of the file, which would cost a write of the
// file system's own journal.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

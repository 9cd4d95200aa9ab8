package wal

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	noCOW    = 0x00800000 // FS_NOCOW_FL of linux/fs.h
	zfsMagic = 0x2fc12fc1 // ZFS_SUPER_MAGIC of OpenZFS
)

// overwriteInPlace has the bytes of a file, which is empty yet, overwritten in
// place where the file system would write them elsewhere and can be told not to:
// only then does filling a segment reserve its space. btrfs leaves out its own
// checksums with that; batches have theirs.
func overwriteInPlace(f *os.File) {
	if copyOnWrite(f) != "btrfs" {
		return
	}
	fd := int(f.Fd())
	if flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|noCOW)) // Start will tell
	}
}

// copyOnWrite is the name of a file system that needs space to overwrite bytes
// of f; empty: it is not known to.
func copyOnWrite(f *os.File) string {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return ""
	}
	switch uint32(st.Type) {
	case unix.BTRFS_SUPER_MAGIC:
		if flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS); err == nil && flags&noCOW != 0 {
			return ""
		}
		return "btrfs"
	case zfsMagic:
		return "zfs"
	case unix.BCACHEFS_SUPER_MAGIC:
		return "bcachefs"
	case unix.NILFS_SUPER_MAGIC:
		return "nilfs2"
	}
	return ""
}

package wal

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	noCOW    = 0x00800000 // FS_NOCOW_FL of linux/fs.h
	zfsMagic = 0x2fc12fc1 // ZFS_SUPER_MAGIC of OpenZFS
)

// overwriteInPlace turns off copy-on-write for an empty file on btrfs. Only without copy-on-write
// does filling a segment reserve its space. btrfs then keeps no checksums for the file, but
// batches have their own.
func overwriteInPlace(f *os.File) {
	if copyOnWrite(f) != "btrfs" {
		return
	}
	fd := int(f.Fd())
	if flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|noCOW)) // Start will tell
	}
}

// copyOnWrite returns the name of the file system if overwriting bytes of f needs new space.
// Empty: it is not known to need any.
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

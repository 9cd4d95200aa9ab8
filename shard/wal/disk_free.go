//go:build unix

package wal

import (
	"math"

	"golang.org/x/sys/unix"
)

func (d dirDisk) Free() int64 {
	var st unix.Statfs_t
	if unix.Statfs(string(d), &st) != nil {
		return math.MaxInt64
	}
	return int64(st.Bavail) * int64(st.Bsize)
}

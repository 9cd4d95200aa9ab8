//go:build !linux

package router

import "golang.org/x/sys/unix"

// send writes to a socket that does not block.
func send(fd int, p []byte) (int, error) { return unix.Write(fd, p) }

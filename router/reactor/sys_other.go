//go:build !linux

package reactor

import "golang.org/x/sys/unix"

// pollHangUp: POLLHUP, which comes unasked, also tells of a half-close here.
const pollHangUp = 0

// send writes to a socket that does not block.
func send(fd int, p []byte) (int, error) { return unix.Write(fd, p) }

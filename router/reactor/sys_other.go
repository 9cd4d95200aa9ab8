//go:build !linux

package reactor

import "golang.org/x/sys/unix"

// pollHangUp is empty: POLLHUP, which poll always reports, includes a half-close here.
const pollHangUp = 0

// send writes to a non-blocking socket.
func send(fd int, p []byte) (int, error) { return unix.Write(fd, p) }

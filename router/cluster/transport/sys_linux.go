package transport

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged has a connection break when what was sent is not acknowledged for so
// long. Errors do not matter: it breaks later then.
func limitUnacknowledged(c *net.TCPConn, d time.Duration) {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
	}
}

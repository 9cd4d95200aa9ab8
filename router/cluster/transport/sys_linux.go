package transport

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged breaks a connection when sent bytes are not acknowledged in time. Without
// the option it breaks later.
func limitUnacknowledged(c *net.TCPConn, d time.Duration) {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
	}
}

//go:build !linux

package transport

import (
	"net"
	"time"
)

// limitUnacknowledged does nothing: the system's own limit applies.
func limitUnacknowledged(*net.TCPConn, time.Duration) {}

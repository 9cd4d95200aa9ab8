//go:build !linux

package transport

import (
	"net"
	"time"
)

// limitUnacknowledged is Linux's; elsewhere the system's own limit holds.
func limitUnacknowledged(*net.TCPConn, time.Duration) {}

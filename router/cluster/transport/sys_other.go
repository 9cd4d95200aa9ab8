//go:build !linux

package transport

import (
	"net"
	"time"
)

// limitUnacknowledged does nothing: the limit of the system holds.
func limitUnacknowledged(*net.TCPConn, time.Duration) {}

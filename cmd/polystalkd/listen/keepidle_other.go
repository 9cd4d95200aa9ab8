//go:build !linux

package listen

import "golang.org/x/sys/unix"

// keepIdle is the option for the time of silence before the first probe.
const keepIdle = unix.TCP_KEEPALIVE

package reactor

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// peerAt is the other end of a socket, nil if it is not connected any more.
func peerAt(fd int) net.Addr {
	sa, _ := unix.Getpeername(fd)
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)))
	case *unix.SockaddrInet6:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port)))
	case *unix.SockaddrUnix:
		return &net.UnixAddr{Name: sa.Name, Net: "unix"}
	}
	return nil
}

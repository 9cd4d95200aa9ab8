package router

import (
	"log/slog"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// peerOf is who is on the other end of a connection, asked for when somebody wants
// to know: nil if that cannot be told.
func peerOf(c Conn) net.Addr {
	if p, ok := c.(interface{ Peer() net.Addr }); ok {
		return p.Peer()
	}
	return nil
}

// Peer is the client's address, as the system has it now.
func (k *socket) Peer() net.Addr {
	if k.fd < 0 {
		return nil
	}
	return peerAt(k.fd)
}

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

// LogValue implements slog.LogValuer: a session stands in the log, as conn, for its
// client's address. It is called only for a line that is written.
func (s *session) LogValue() slog.Value { return slog.StringValue(peerName(peerOf(s.conn))) }

// A remote is the other end of a connection that has no session yet, or any more, for
// the log.
type remote struct{ net.Addr }

// LogValue implements slog.LogValuer.
func (r remote) LogValue() slog.Value { return slog.StringValue(peerName(r.Addr)) }

// peerName is "unix" for a unix socket, whose clients have no names.
func peerName(a net.Addr) string {
	switch a := a.(type) {
	case nil:
		return "unknown"
	case *net.UnixAddr:
		return "unix"
	default:
		return a.String()
	}
}

// peerIP is the address without the port, as the command workers shows it.
func peerIP(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return "-"
}

// isHere reports whether a is on this machine: the other end of a unix socket, a
// loopback address, or one of the machine's own.
func isHere(a net.Addr) bool {
	if _, ok := a.(*net.UnixAddr); ok {
		return true
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return false
	}
	if tcp.IP.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok && n.IP.Equal(tcp.IP) {
			return true
		}
	}
	return false
}

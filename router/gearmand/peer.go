package gearmand

import (
	"net"

	"polystalk/router/session"
)

// addressesCost is the cost of listing the machine's addresses, in units of a turn.
const addressesCost = 256

// mayShutDown reports whether the client may shut the server down.
func (c *conn) mayShutDown() bool {
	switch c.front.cfg.Load().Shutdown {
	case ShutdownAny:
		return true
	case ShutdownNone:
		return false
	}
	c.Spend(addressesCost)
	return isHere(session.PeerOf(c.Conn()))
}

// peerIP returns the address without the port, for the command workers.
func peerIP(a net.Addr) string {
	if f, ok := a.(session.Forwarded); ok {
		a = f.Addr
	}
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return "-"
}

// isHere reports whether a is on this machine: a unix socket, a loopback address, or an address
// of one of the machine's interfaces. If another server has forwarded the connection, only an
// interface address counts: the others belong to that server.
func isHere(a net.Addr) bool {
	f, forwarded := a.(session.Forwarded)
	if forwarded {
		a = f.Addr
	}
	if _, ok := a.(*net.UnixAddr); ok {
		return !forwarded
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return false
	}
	if tcp.IP.IsLoopback() {
		return !forwarded
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

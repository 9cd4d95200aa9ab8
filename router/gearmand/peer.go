package gearmand

import (
	"net"

	"polystalk/router/session"
)

// addressesCost is what listing the machine's addresses takes of a turn's budget.
const addressesCost = 256

// mayShutDown reports whether the client's shutdown is obeyed.
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

// peerIP is the address without the port, as the command workers shows it.
func peerIP(a net.Addr) string {
	if f, ok := a.(session.Forwarded); ok {
		a = f.Addr
	}
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return "-"
}

// isHere reports whether a is on this machine: the other end of a unix socket, a
// loopback address, or one of the machine's own. Of a client that has come by way of
// another server only the last tells where it is: the others are that server's.
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

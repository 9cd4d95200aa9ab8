package session

import (
	"log/slog"
	"net"
)

// PeerOf is who is on the other end of a connection, asked for when somebody wants
// to know: nil if that cannot be told.
func PeerOf(c Conn) net.Addr {
	if p, ok := c.(interface{ Peer() net.Addr }); ok {
		return p.Peer()
	}
	return nil
}

// A Forwarded is the address of a client whose connection has come by way of another server of
// a cluster, as that one has it: what is this machine's to that one need not be so here.
type Forwarded struct{ net.Addr }

// PeerName is "unix" for a unix socket, whose clients have no names.
func PeerName(a net.Addr) string {
	switch a := a.(type) {
	case nil:
		return "unknown"
	case *net.UnixAddr:
		return "unix"
	case Forwarded:
		return PeerName(a.Addr)
	default:
		return a.String()
	}
}

// A Remote is the other end of a connection that has no session yet, or any more, for the
// log.
type Remote struct{ net.Addr }

// LogValue implements slog.LogValuer.
func (r Remote) LogValue() slog.Value { return slog.StringValue(PeerName(r.Addr)) }

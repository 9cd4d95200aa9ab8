package session

import (
	"log/slog"
	"net"

	"polystalk/shard/core"
)

// A new protocol takes these steps:
//
//  1. A codec, below codec: bytes to values and back.
//  2. A package below router with a protocol, which embeds a Session and calls its Init, and
//     a Front that makes one for each connection. The Front's constructor calls Host.Base.
//  3. router.NewUnconnected makes the Front and appends it to Server.fronts, in the order of
//     the calls of Base: this order gives the counters their names.
//  4. A method like Server.ServeGearman gives the reactor a listener and the Front.
//  5. In cmd/polystalkd: a flag and its row in the guide, the address, and code that opens,
//     serves and announces its sockets.
//  6. In cmd/imports_test.go: a law that protocols do not import each other.

// A protocol turns the bytes of one connection into operations, and replies into bytes. Its
// embedded Session calls it, always with the loop held, and with no shard owned except in
// Replied.
type protocol interface {
	// Input runs the commands at the front of b, one after the other, while
	// Session.MayParse allows it, and returns how many bytes it used. It must not keep b.
	// The next call repeats unused bytes, followed by new ones.
	Input(b []byte) (n int)
	// Replied takes the reply of the pending operation, perhaps with the shard owned. It
	// appends to Out, and calls Visit, Later or After, or nothing if the command is done.
	// Memory of the reply is valid until Replied returns, except core.Reply.Large, which
	// never changes.
	Replied(r *core.Reply)
	// Next continues the command after After or Later.
	Next()
	// Woken takes a message that is not a reply: a wake-up, or mail. It may arrive at any
	// time, also when the session is closing or gone.
	Woken(m *core.Message)
	// GiveUp ends a wait (see Session.Wait) because the client sends no more, unless a
	// wake-up is already on its way.
	GiveUp()
	// Close releases everything that shards and others hold for the client, with operations
	// but without replies. After that, perhaps some turns later, it must call Session.Gone.
	Close()
}

// A Front is a protocol's side of a server: it makes the sessions and owns what they share.
type Front interface {
	// Name is the protocol's name for people, as in logs.
	Name() string
	// Kinds returns the names of the command counters, and Errors the names of the error
	// counters in lower case: Session.Count and Loop.CountError take a result of Host.Base plus
	// the index in these lists. A counter with an empty name is not shown.
	Kinds() []string
	Errors() []string
	// Open makes a protocol value for a new connection, calls Init of its embedded Session,
	// and returns that Session. Its first turn calls Start, if it is a starter.
	Open(l *Loop, c Conn) *Session
}

// A starter is a protocol with a first step before any input. Start is called in a turn.
type starter interface{ Start() }

// A Conn is the session's interface to its connection. Only the loop's holder calls it.
type Conn interface {
	// Write sends p and keeps a copy of the bytes that the socket does not take.
	Write(p []byte)
	// WriteStable is Write for pieces that never change; the Conn may keep them.
	WriteStable(pieces [][]byte)
	// Unsent returns the number of bytes kept. When it falls to zero, the Conn calls the
	// session's AllSent.
	Unsent() int
	// Close closes the connection after the unsent bytes, Drop at once. Neither notifies
	// the session.
	Close()
	Drop()
	// Pause stops the session's input until Resume. Pause is called during Input only;
	// Resume may follow in the same call. Both return false on failure: the session then
	// drops the connection.
	Pause() bool
	Resume() bool
}

// A parter is a Conn that can close in the middle of a request so that the client still
// receives the error reply.
type parter interface {
	// Part is Close for a client that may still be sending a request.
	Part()
}

// PeerOf returns the address of the other end of a connection; nil: it is unknown.
func PeerOf(c Conn) net.Addr {
	if p, ok := c.(interface{ Peer() net.Addr }); ok {
		return p.Peer()
	}
	return nil
}

// A Forwarded describes a client of another server of the cluster, which forwards the connection to
// this one. A local address there is not local here.
type Forwarded struct {
	net.Addr
	TLS bool // the client uses TLS
	// Identity is what that server's access file says about the client, as in "web:certificate",
	// or ":default" for a client without rights; empty: that server has no access file.
	Identity string
}

// PeerName formats an address for people. It is "unix" for a unix socket, where clients have
// no addresses.
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

// A Remote is the other end of a connection without a session, for the log.
type Remote struct{ net.Addr }

// LogValue implements slog.LogValuer.
func (r Remote) LogValue() slog.Value { return slog.StringValue(PeerName(r.Addr)) }

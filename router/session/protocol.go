package session

import (
	"log/slog"
	"net"

	"polystalk/shard/core"
)

// A new protocol takes these steps. router/protocol_test.go is an example: it takes steps 2
// to 5 for a protocol of two commands, within the test.
//
//  1. A codec, below codec: bytes to values and back, if that is more than a line or two.
//  2. A package below router with a Protocol, which embeds a Session and calls its Init, and
//     a Front that makes one for each connection. Front.Kinds names its commands.
//  3. Host.Base, called once by what makes the Front, before there is a loop, says from
//     where it counts them, as Session.Count(base + kind). Front.Errors, Host.ErrorBase and
//     Loop.CountError are the same for its errors.
//  4. router.newServer makes the Front and appends it to Server.fronts, in the order of the
//     calls of Base: the counters are named by that (router/counters_test.go).
//  5. A method like Server.ServeGearman gives the reactor a listener and the Front.
//  6. In cmd/polystalkd: a flag and its row in the README, the address, and its sockets
//     opened, served and announced.
//  7. In cmd/imports_test.go: a law that keeps protocols from knowing each other.

// A protocol turns the bytes of one connection into operations, and replies into bytes. The
// Session that it embeds calls it; all calls are made with the loop held, and all but
// Replied with no shard owned.
type protocol interface {
	// Input runs the commands at the front of b, one after the other while
	// Session.MayParse says so, and returns how many bytes it used. b is the session's
	// again when it returns; unused bytes come again, with those that follow.
	Input(b []byte) (n int)
	// Replied takes the reply of the operation under way. The shard may be owned: it
	// appends to Out, and calls Visit, Later or After, or nothing if the command is done.
	// What the reply points to is valid until it returns, except core.Reply.Large, which
	// never changes.
	Replied(r *core.Reply)
	// Next goes on where After or Later has left off.
	Next()
	// Woken takes a message that was not asked for: a wake-up, mail. It may come at any
	// time, also to a session that is closing or gone.
	Woken(m *core.Message)
	// GiveUp is called for a session that waits (see Session.Wait): its client sends no
	// more, so the wait ends now, unless a wake-up is about to come.
	GiveUp()
	// Close gives back what shards and others hold for the client, with operations as
	// usual but without answers. When all is done, perhaps turns later, it must call
	// Session.Gone.
	Close()
}

// A Front is a protocol's side of a server: it makes the sessions and owns what they share.
type Front interface {
	// Name is the protocol's name for people, as in logs.
	Name() string
	// Kinds names the kinds of commands, as counters: a session counts one by
	// Session.Count, with the result of Host.Base and the index in this list. One without
	// a name is not shown.
	Kinds() []string
	// Errors names the errors in replies, in lower case: a session counts one by
	// Loop.CountError, with the result of Host.ErrorBase and the index in this list.
	Errors() []string
	// Open makes a session for a new connection: a value that embeds a Session, which is
	// returned after Session.Init. It has its first turn by Start.
	Open(l *Loop, c Conn) *Session
}

// A starter is a Protocol that has something to do when its session is new, before any
// input. It is called in a turn.
type starter interface{ Start() }

// A Conn is what a session needs of its connection. Only the loop's holder calls it.
type Conn interface {
	// Write sends p and keeps a copy of what the socket does not take.
	Write(p []byte)
	// WriteStable is Write for pieces that never change; they may be kept.
	WriteStable(pieces [][]byte)
	// Unsent is the number of bytes kept. Once it falls to zero the session's
	// AllSent is called.
	Unsent() int
	// Close closes the connection after what is unsent, Drop at once. The session is
	// not told.
	Close()
	Drop()
	// Pause stops the session's input until Resume. Pause is called during Input only;
	// Resume may follow in the same call. Both report false when that cannot be done:
	// the session then drops the connection.
	Pause() bool
	Resume() bool
}

// A parter is a Conn that can be closed in the middle of a request without the client
// losing the reply that says why.
type parter interface {
	// Part is Close for a client that may be in the middle of a request.
	Part()
}

// PeerOf returns the address of the other end of a connection; nil: it is unknown.
func PeerOf(c Conn) net.Addr {
	if p, ok := c.(interface{ Peer() net.Addr }); ok {
		return p.Peer()
	}
	return nil
}

// A Forwarded is a client's address at another server of the cluster, which has forwarded
// the connection. A local address there is not local here.
type Forwarded struct{ net.Addr }

// PeerName returns an address for people; "unix" for a unix socket, where clients have no
// names.
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

package session

import "polystalk/shard/core"

// A new protocol takes these steps. router/protocol_test.go is the example to begin with: it
// takes those from 2 to 5 for a protocol of two commands, within the test.
//
//  1. A codec, below codec: bytes to values and back, if that is more than a line or two.
//  2. A package below router with a Protocol, which embeds a Session and calls its Init, and
//     a Front that makes one for each connection. Front.Kinds names its commands.
//  3. Host.Base, called once by what makes the Front, before there is a loop, says from
//     where it counts them, as Session.Count(base + kind). Front.Errors, Host.ErrorBase and
//     Loop.CountError are the same for what it refuses.
//  4. router.newServer makes the Front and appends it to Server.fronts, in the order in which
//     Base was called: the counters are named by that (router/counters_test.go).
//  5. A method like Server.ServeGearman gives the reactor a listener and the Front.
//  6. In cmd/polystalkd: a flag (config/flags.go) and its row in the README there, the
//     address (config/address.go), and its sockets opened, served and announced (package
//     listen, serve.go, announce.go).
//  7. In cmd/imports_test.go: a law that keeps protocols from knowing each other.

// A Protocol is what is spoken on one connection: it turns bytes into operations and
// replies into bytes. The Session that it embeds calls it; all calls are made on the
// session's loop, and all but Took with no shard owned.
type Protocol interface {
	// Input runs the commands at the front of b, one after the other while
	// Session.Reads says so, and returns how many bytes it used. b is the session's
	// again when it returns; what was not used comes again, with what follows it.
	Input(b []byte) (n int)
	// Took takes the reply of the operation that was under way. The shard may be
	// owned: Took appends to Out, and calls Visit, Later or After, or nothing if the
	// command is done. What the reply points to is good until it returns, except what
	// never changes (core.Reply.Large).
	Took(r *core.Reply)
	// Next goes on where After or Later has left off.
	Next()
	// Came takes a message that was not asked for: a wake-up, mail. It may come at any
	// time, also to a session that is closing or gone.
	Came(m *core.Message)
	// GiveUp is called for a session that waits (see Session.Wait): its client sends no
	// more, and what it waits for ends now, if that is not about to come.
	GiveUp()
	// Close gives back what shards and others hold for the client, which is not to be
	// answered any more, with operations as any; when all is done, perhaps turns
	// later, Session.Gone is to be called.
	Close()
}

// A Front is a protocol's side of a server: it makes the sessions and owns what they
// share.
type Front interface {
	// Name is the protocol's for people, as in logs.
	Name() string
	// Kinds names the kinds of commands that it counts, as counters: a session counts
	// one by Session.Count, with what Host.Base gave and the index in this list. One
	// without a name is not shown.
	Kinds() []string
	// Errors names the errors that it answers with, in lower case: a session counts one
	// by Loop.CountError, with what Host.ErrorBase gave and the index in this list.
	Errors() []string
	// Open makes a session for a new connection: a value that embeds a Session,
	// which is returned after Session.Init. It has its first turn by Start.
	Open(l *Loop, c Conn) *Session
}

// A Starter is a Protocol that has something to do when its session is new, before any
// input. It is called in a turn.
type Starter interface{ Start() }

// A Conn is what a session needs of its connection. Only the session's loop calls it.
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
	// Pause stops the session's input until Resume. Pause is called during Input
	// only; Resume may follow in the same call. Both report false when that cannot be
	// done: the session then drops the connection.
	Pause() bool
	Resume() bool
}

// A Parter is a Conn that can be closed in the middle of what its client says, without
// the client losing the reply that says why.
type Parter interface {
	// Part is Close for a client that may be in the middle of something.
	Part()
}

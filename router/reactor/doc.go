// Package reactor brings connections to sessions: it runs the event loops, accepts, reads
// and writes sockets, and keeps what a socket did not take. It is the server's side of
// gnet, of which nobody else knows a type, and knows nothing of what is spoken: a listener
// comes with a session.Front, which makes the sessions of its connections.
//
// # Event loops
//
// Each of gnet's event loops carries a session.Loop. It is woken through one of a pair of
// sockets (waker.go), so that a wake-up takes its place among all that is ready. On Linux
// every event loop accepts from every listener by itself, with a poller of its own that
// looks at the listener (acceptor_linux.go), and takes a connection by its descriptor
// (adopt_linux.go). Elsewhere one goroutine a listener accepts, by way of package net.
//
// A connection that somebody else has accepted, as another server of a cluster has, is taken
// in the same way (take.go), with the address that its client has there.
//
// gnet's own acceptor is not used: it ends the server when descriptors run out, and
// removes whatever stands at the path of a unix socket.
//
// # One connection
//
// A connection has one descriptor, whatever its client does. What the socket does not take
// waits in a session.SendQueue, and the notifier tells when it takes more; gnet's own buffer
// neither tells when it is empty nor is all sent when the client half-closes. When gnet
// closes its side while there is something to be said, the socket goes on under a
// duplicate, for which gnet's descriptor makes room at once. And gnet's poller is told not
// to look at a connection that is paused.
//
//	gnet has the descriptor  ── detach ──►  we have a duplicate  ── end ──►  closed
//	c set, fd is gnet's                     c nil, fd is ours                c nil, fd -1
//	          └───── detach, with nothing left to say or nothing to say it by ──►┘
//
// Beside that, the stages of a socket:
//
//	serving ── Close ──► closing ── all is sent, or it broke, or Drop ────────► over
//	   ├────── Part ───► parting ── the same, and the client is done ─────────► over
//	   │                    └────── Drop ──► closing, of which nothing is unsent
//	   └─ it broke ────► broken  ── Close, or Drop ───────────────────────────► over
//
// The session is told of a broken connection by Session.Abort, and closes it then. A
// closing one that is not read, and a parting one whose client goes on, is dropped after
// lingerMax.
//
// # Who may touch what
//
// A socket belongs to who holds its session.Loop (Enter), also in its timers and when the
// notifier tells of it, which go through Loop.Signal. Locks are taken in this order, each
// with none of those behind it held: the Loop, Reactor.mu, listener.mu; and last, with
// nothing called under them, eventLoop.mu, waker.mu and notifier.mu. A net.Listener is
// closed with none of them held: its Close waits for a loop that is accepting, and that
// may want any of them.
package reactor

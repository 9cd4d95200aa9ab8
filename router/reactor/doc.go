// Package reactor brings connections to sessions: it runs the event loops, accepts, reads
// and writes sockets, and keeps what a socket did not take. It is the server's side of
// gnet; no other package knows a type of gnet. It knows nothing of protocols: a listener
// comes with a session.Front, which makes the sessions of its connections.
//
// # Event loops
//
// Each of gnet's event loops carries a session.Loop. A pair of sockets wakes it (waker.go),
// so that a wake-up takes its place among all that is ready. On Linux every event loop
// accepts from every listener itself: its poller watches the listener (acceptor_linux.go),
// and it adopts a connection by its descriptor (eventloop_linux.go). Elsewhere one goroutine
// a listener accepts, by package net. Reactor.Take serves a connection that was accepted
// elsewhere, as by another server of the cluster, with the client's address there.
//
// gnet's own acceptor is not used: it ends the server when descriptors run out, and removes
// whatever stands at the path of a unix socket.
//
// # One connection
//
// A connection has one descriptor, whatever its client does. What the socket does not take
// waits in a session.SendQueue until the notifier tells that it takes more; gnet's own
// buffer does not tell when it is empty, and is not sent completely after a half-close. When
// gnet closes its side while there is output left, the socket goes on under a duplicate,
// for which gnet's descriptor makes room at once. gnet's poller does not watch a paused
// connection.
//
//	gnet has the descriptor  ── detach ──►  we have a duplicate  ── end ──►  closed
//	c set, fd is gnet's                     c nil, fd is ours                c nil, fd -1
//	          └───── detach, with nothing left to say or nothing to say it by ──►┘
//
// A socket also has a stage:
//
//	serving ── Close ──► closing ── all is sent, or it broke, or Drop ────────► over
//	   ├────── Part ───► parting ── the same, and the client is done ─────────► over
//	   │                    └────── Drop ──► closing, with nothing unsent
//	   └─ it broke ────► broken  ── Close, or Drop ───────────────────────────► over
//
// The session learns of a broken connection by Session.Abort, and closes it then. A closing
// connection that is not read, and a parting one with a client that goes on, is dropped after
// lingerMax.
//
// # Ownership
//
// Only the holder of its session.Loop (Enter) touches a socket. Its timers and the notifier
// go through Loop.Signal. Locks are taken in this order, each with no later one held: the
// Loop, Reactor.mu, listener.mu; and last, with nothing called under them, eventLoop.mu,
// waker.mu and notifier.mu. A net.Listener is closed with no lock held: its Close waits for
// a loop that is accepting, and that may want any of them.
package reactor

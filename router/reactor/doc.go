// Package reactor connects sockets to sessions: it runs the event loops, accepts, reads and
// writes sockets, and keeps output that a socket did not take. No other package uses gnet.
// The reactor does not know protocols: each listener has a session.Front, which makes the
// sessions of its connections.
//
// # Event loops
//
// Each of gnet's event loops runs a session.Loop. A pair of sockets wakes it (waker.go), so
// that a wake-up is handled like any other ready socket. On Linux every event loop accepts
// from every listener: its poller watches the listener (acceptor_linux.go), and it adopts a
// connection by its descriptor (eventloop_linux.go). On other systems one goroutine per
// listener accepts, by package net. Reactor.Take serves a connection that was accepted
// elsewhere, for example by another server of the cluster, with the client's address there.
//
// gnet's own acceptor is not used: it ends the server when descriptors run out, and removes
// any file at the path of a unix socket.
//
// # One connection
//
// A connection never needs more than one descriptor for long. Output that the socket does
// not take waits in a session.SendQueue until the notifier reports the socket as writable;
// gnet's own buffer does not report when it is empty, and is not sent completely after a
// half-close. When gnet closes its descriptor while output is left, the socket continues
// with a duplicate, and gnet's descriptor is closed at once. gnet's poller does not watch a
// paused connection.
//
//	gnet has the descriptor  ── detach ──►  we have a duplicate  ── end ──►  closed
//	c set, fd is gnet's                     c nil, fd is ours                c nil, fd -1
//	          └───── detach, with no output left or no free descriptor ─────────►┘
//
// A socket also has a stage:
//
//	serving ── Close ──► closing ── all is sent, or it broke, or Drop ────────► over
//	   ├────── Part ───► parting ── the same, and the client has closed ──────► over
//	   │                    └────── Drop ──► closing, with nothing unsent
//	   └─ it broke ────► broken  ── Close, or Drop ───────────────────────────► over
//
// Session.Abort notifies the session of a broken connection, and the session closes it. After
// lingerMax a closing connection is dropped if the client has not read everything, and a
// parting one if the client has not closed its side.
//
// # Ownership
//
// Only the holder of its session.Loop (Enter) may use a socket. Its timers and the notifier
// use Loop.Signal. The lock order is: the Loop, Reactor.mu, listener.mu; and last
// eventLoop.mu, waker.mu and notifier.mu, under which no other lock is taken. No lock may be
// held to close a net.Listener: its Close waits for a loop that is accepting, and the loop may
// need any of the locks.
package reactor

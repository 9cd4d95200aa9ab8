// Package session implements the parts of a client connection that do not depend on its
// protocol: its turns on an event loop, its held input and its output, its one pending
// operation in a shard, admission, memory accounting, and its end. A protocol, such as
// package beanstalkd, interprets the bytes. A Conn (package reactor, or a test) carries them.
//
// # Events and one function
//
// Each event changes some of a session's state and then calls Session.Go, which does
// everything that is possible now: parse held input, resume reading, or end.
//
//	input arrives             Loop.Input
//	an operation returns      Loop, by Post: Protocol.Replied
//	a wake-up, mail           Loop, by Post: Protocol.Woken
//	a queued turn begins      Loop: Protocol.Next, after Later
//	a reason to stop ended    the table in admission.go
//	the client half-closes    Session.HalfClose
//	the connection is broken  Session.Abort
//
// # Lives
//
//	        the shard is busy, or Later          it returns, or the turn begins
//	ready ──────────────────────────────► busy ──────────────────────────────► ready
//	  │  Wait: no job is ready                                                   ▲
//	  └─────────────────────────────────► waiting ───────────────────────────────┘
//	                                            Woken, or GiveUp: EndWait
//	ready, waiting ── Abort; or HalfClose or Quit, after the last reply ──► closing
//	closing ── Protocol.Close has released everything: Gone ──► gone
//
// A busy session closes only after its operation returns: the effect of the operation must
// be known before it can be undone. Any other move panics with the session's values.
//
// A session also has an ending, which only increases (open, half-closed, quitting, refused,
// broken), and reasons to stop. While a reason is set, no command is parsed.
//
// # One operation
//
// A session has one pending operation, so replies are in order. A protocol fills Op and
// names the shard by Visit. If the shard is free, the loop's holder runs the operation in
// place, and Replied takes the reply while the shard is owned: it appends to Out and notes
// the next step, either another Visit or, for work that must not happen while a shard is
// owned, After. If the shard is busy, the message is left there, and Replied is called when
// it returns. So no loop ever waits for a shard or owns two.
//
// # Ownership
//
// A session belongs to its Loop. Only the loop's holder touches it: the event loop's
// goroutine, or another one that found the loop idle (Loop.help). Any goroutine may call
// Loop.Post, Loop.Signal, Loop.SignalNumber and Loop.Do; operators read sessions that way.
// The loops of a server share a Host.
//
// # Memory of a connection
//
// The budget of an idle beanstalkd connection is 1,000 bytes, with its data in shards and
// without the kernel's socket. TestFootprint of package router measures about 920:
//
//	640  beanstalkd.conn; the Session in it takes 312, 40 of them for statistics
//	  8  its entry in the loop's registry
//	 32  its handle in one shard and its watch list of one tube
//	224  a core's client, and about 80 for one entry of a watch list
//
// A pending operation borrows 360 bytes from the loop (Loop.takeMessage). A client that
// reserves keeps 512 more (ops.Reserve). All other memory of a busy session is in the account
// (accounting.go).
package session

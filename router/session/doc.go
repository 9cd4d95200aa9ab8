// Package session holds what every client connection needs, whatever protocol it speaks:
// its turns on an event loop, its held input and its output, the one operation that it has
// under way in a shard, admission, the account of its memory, and its end. A Protocol, such
// as package beanstalkd, says what the bytes mean. A Conn (package reactor, or a test)
// carries them.
//
// # Events and one function
//
// Each event changes some of a session's state and then calls Session.Go, which does what
// can be done now: parse held input, read again, or end.
//
//	bytes came                Loop.Input
//	an operation is back      Loop, by Post: Protocol.Replied
//	a wake-up, mail           Loop, by Post: Protocol.Woken
//	its turn came             Loop: Protocol.Next, after Later
//	a reason to stop ended    the table in admission.go
//	the client half-closes    Session.HalfClose
//	the connection is broken  Session.Abort
//
// # Lives
//
//	        the shard is busy, or Later          it is back, or the turn has come
//	ready ──────────────────────────────► busy ──────────────────────────────► ready
//	  │  Wait: nothing to be reserved                                            ▲
//	  └─────────────────────────────────► waiting ───────────────────────────────┘
//	                                            Woken, or GiveUp: EndWait
//	ready, waiting ── Abort; or all is said that HalfClose or Quit left ──► closing
//	closing ── Protocol.Close has given everything back: Gone ──► gone
//
// A session that is busy when it must end closes after its operation is back: the effect of
// the operation must be known before it can be undone. Any other move panics with the
// session's values.
//
// Besides its life a session has an ending, which only moves on (open, half-closed,
// quitting, refused, broken), and reasons to stop. While one is set, no command is parsed.
//
// # One operation
//
// A session has one operation under way at a time, so replies come in order. A protocol
// fills Op and names the shard by Visit. If the shard is free, the loop's holder runs the
// operation in place, and Replied takes the reply while the shard is owned: it appends to
// Out and notes what comes next, either another Visit or, for work that must not happen
// while a shard is owned, After. If the shard is busy, the message is left there, and
// Replied is called when it is back. So no loop ever waits for a shard or owns two.
//
// # Ownership
//
// A session belongs to its Loop. Only the loop's holder touches it: the event loop's
// goroutine, or another one that found the loop idle (Loop.help). Any goroutine may call
// Loop.Post, Loop.Signal, Loop.SignalNumber and Loop.Do; operators look at sessions that
// way. A Host is what the loops of a server share.
//
// # Memory of a connection
//
// The budget of an idle beanstalkd connection is 1,000 bytes of ours, its part of the
// shards included and the kernel's socket excluded. TestFootprint of package router measures
// about 920:
//
//	640  beanstalkd.conn; the Session in it takes 304, 40 of them for statistics
//	  8  its entry in the loop's registry
//	 32  its handle in one shard and its watch list of one tube
//	224  a core's client, and about 80 for one entry of a watch list
//
// The loop lends 360 bytes for an operation while it is under way (Loop.takeMessage). A
// client that reserves keeps 512 more (ops.Reserve). All else that a busy session keeps is
// in the account (accounting.go).
package session

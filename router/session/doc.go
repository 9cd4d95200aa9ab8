// Package session holds what every connection needs, whatever protocol is spoken on it:
// its turns on an event loop, its held input and its output, one operation under way in a
// shard, its share of the disk's room and of the memory that connections may take, and
// its end. What is said on it is a Protocol's, each in a package of its own, as beanstalkd
// is; where its bytes come from is a Conn's (package reactor, or a test).
//
// # Events and one function
//
// Whatever happens to a session changes some of its state and then calls Session.Go,
// which does what can be done now: parse what is held, read again, or end.
//
//	bytes came             Loop.Input
//	an operation is back   Loop, by way of Post: Protocol.Took
//	a wake-up, mail        Loop, by way of Post: Protocol.Came
//	its turn               Loop: Protocol.Next, if Later was called
//	the socket is empty    Session.AllSent   lifts Unread
//	a commit is acked      Loop              lifts Uncommitted
//	there is room          Loop              lifts NoSpace
//	its body has a place   Loop, by a Signal lifts NoPlace
//	the client half-closes Session.HalfClose
//	it is broken           Session.Abort
//
// # Lives
//
//	        the shard is busy, or Later          it is back, or the turn has come
//	ready ──────────────────────────────► busy ──────────────────────────────► ready
//	  │  Wait: nothing to be reserved                                            ▲
//	  └─────────────────────────────────► waiting ───────────────────────────────┘
//	                                            Came, or GiveUp: EndWait
//	ready, waiting ── Abort; or all is said that HalfClose or Quit left ──► closing
//	closing ── Protocol.Close has given everything back: Gone ──► gone
//
// A session that is busy when it is to end closes as soon as its operation is back: what
// that did must be known to be undone. Any other move panics, with the session's values.
//
// Besides its life a session has an ending, which only moves on (open, half-closed,
// quitting, refused, broken), and reasons to stop, Stops: while one is set no command is
// parsed. A command that waits for one of them to be lifted is put off by Later. What sets
// each and what lifts it:
//
//	             is set by                               is lifted by
//	Unread       checkUnsent (output.go): the socket     AllSent (session.go): it has
//	             did not take more than unsentMost;      taken everything
//	             settle (session.go): it has not taken
//	             all when a pause could end
//	Uncommitted  gateReply (output.go): more than        openGate (gate.go): at most
//	             unsentMost waits for commits            half of unsentMost waits
//	NoSpace      Block (permit.go): the disk has none    openForRoom (gate.go): there may be
//	NoPlace      Crowded (bodyroom.go): other large      letIn (bodyroom.go): another session's
//	             bodies are being received               FreeBodyRoom signals that it is its turn
//
// unsentMost is what a session may keep of replies; see charge.go. A commit is acked once
// it is as safe as the policy asks for: on the disk with -b alone, only written with -f
// and -F.
//
// # One operation
//
// One operation is under way at a time, so replies come in order by themselves. A
// protocol fills Op and names the shard by Visit. If that is free the operation is run in
// place, by whoever has the loop, and Took takes the reply while the shard is owned: it
// appends to Out, and notes what is next, either another Visit or, for what must not be
// done while a shard is owned, After. If it is busy the message is left there, and the
// same happens when it is back. So nobody ever waits for a shard, and nobody owns two.
//
// # Who may touch what
//
// A session belongs to its Loop and is touched only by who holds that: the event loop's
// goroutine, or another that found it idle (Loop.help). Loop.Post, Loop.Signal and its kind,
// and Loop.Do may be called by anyone: so operators look at sessions, some a turn, and name
// them by their numbers (notes.go). A Host is what the loops of a server share.
//
// # Memory of a connection
//
// An idle connection that speaks beanstalkd's protocol is budgeted with 1,000 bytes of ours,
// what the shards know of it included and its socket (112) not. TestFootprint of package
// router measures about 920:
//
//	640  beanstalkd.conn, of which the Session is 304, 40 of them noted for operators
//	  8  its place on the roll of its loop
//	 32  its handle in one shard and its watch list of one tube
//	224  what a core knows of a client, and about 80 for one entry of a watch list
//
// An operation is 360 more, and is lent by the loop for as long as it is under way
// (Loop.takeMessage); a client that reserves keeps 512 for that (ops.Reserve). What a
// session keeps besides while it is not idle is charged to an account, bounded over all
// connections (charge.go).
package session

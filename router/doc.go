// Package router connects clients to shards: it turns commands into
// operations, sends them to where the tube or job lives, and turns replies
// into bytes. It merges watch lists across shards for reserve, and figures
// across shards and loops for stats.
//
// The life of a command:
//
//	listener -> the first free event loop (door_linux.go) -> the loop with the fewest connections
//	socket -> event loop (gnet.go) -> session.input -> codec/beanstalk.Parse
//	   -> dispatch (commands.go, reserve.go, tubes.go, stats.go)
//	   -> submit to a shard:
//	        free: Apply in place, handle appends the reply, Release
//	        busy: the message goes into its inbox; whoever owns the shard
//	              runs it and posts it to the loop's outbox; handle then
//	   -> one write per turn (loop.flush)
//
// A connection that speaks Gearman is a session with a gearSession (gearman*.go)
// that takes the bytes and the replies instead:
//
//	session.process -> gearSession.command -> codec/gearman.Parse -> run -> submit
//	session.handle  -> gearSession.handle
//	loop.deliver    -> gearSession.hearMail: what workers report, and NOOP
//
// A session belongs to one loop and has one operation under way, so replies
// are in order without further ado, and input that comes meanwhile is held.
// Sessions know no gnet type: gnet.go feeds them through loop.input,
// loop.event and the Conn interface, and so does a Driven (driven.go).
//
// A step's reply may be handled while its shard is owned: handle only appends
// to the output and notes a next step, which runs after the release. So
// nobody ever waits for a shard while owning another.
//
// Time is that of a clock which nobody sets (package clock). Where tubes and jobs live is what
// package placement knows, which also gives out job ids; the puts that a client has sent
// at once get theirs together (ahead.go).
package router

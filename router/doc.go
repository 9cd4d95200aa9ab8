// Package router is the server: it wires shards, protocols and event loops together, and
// is what the program polystalkd runs.
//
// Its rooms, each a package, from the wire inwards:
//
//	reactor     event loops on gnet, sockets, accepting
//	session     one connection on one loop: its life, input, output, turns, bounds
//	beanstalkd  that protocol on a session
//	gearmand    that protocol on a session
//	ops         operations of several visits to shards, as values: reserve, walk, leave;
//	            where tubes and jobs live, job ids, tube names, the server's time
//	direct      the same operations from a goroutine that may wait
//	memory      what connections keep, counted and bounded
//	restore     what brings jobs back when a server starts
//
// Below them package shard and its rooms hold the jobs. Who may import whom is a table in
// cmd/imports_test.go.
//
// The life of a command:
//
//	socket -> event loop (reactor) -> session.Loop.Input -> Protocol.Input (beanstalkd)
//	   parses, fills an operation, and visits a shard:
//	     free: it is run in place, Protocol.Took appends the reply, the shard is released
//	     busy: the message goes into its inbox; whoever owns the shard runs it and posts it
//	           to the session's loop; Took then
//	   -> one write a turn (session.Session.Flush)
//
// A Driven is the same server without network, clock and goroutines, for the simulator and
// for tests. Another protocol is a session.Front that New makes and Serve is given;
// protocol_test.go has one.
package router

// Package router is the server: it connects shards, protocols and event loops, and is what
// the program polystalkd runs.
//
// Its parts are packages, from the network inwards:
//
//	reactor     event loops on gnet, sockets, accepting
//	session     one connection on one loop: lifecycle, input, output, turns, limits
//	beanstalkd  the beanstalkd protocol on a session
//	gearmand    the Gearman protocol on a session
//	ops         operations with several visits to shards; places of tubes and jobs; the clock
//	direct      operations from goroutines that may block
//	admin       the operations of operators
//	restore     recovers jobs when a server starts
//
// Below them, package shard and its parts hold the jobs. cmd/imports_test.go has the laws of
// imports.
//
// The life of a command:
//
//	socket -> event loop (reactor) -> session.Loop.Input -> Protocol.Input (beanstalkd)
//	   parses, fills an operation, and visits a shard:
//	     free: it runs in place, Protocol.Replied appends the reply, the shard is released
//	     busy: the message goes into its inbox; the shard's owner runs it and posts it back
//	           to the session's loop, where Replied appends the reply
//	   -> one write per turn (session.Session.Flush)
//
// Package routertest drives the same server without network, clock and goroutines.
package router

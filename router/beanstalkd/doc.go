// Package beanstalkd speaks beanstalkd's protocol on a session: it parses commands (package
// codec/beanstalk), has them run where the tube or the job lives, and answers.
//
// The life of a command:
//
//	session.Loop.Input -> conn.Input -> codec/beanstalk.Parse -> conn.dispatch
//	   which fills the operation, says which method takes the reply, and visits a shard:
//	     free: it is run in place; busy: it comes back with a message
//	   conn.Replied -> that method: appends the answer, or visits the next shard
//	one write a turn
//
// A new command takes a Kind in the codec (see there), a case in dispatch (commands.go)
// and a method that takes the reply, beside its noun: jobs in commands.go, put.go,
// reserve.go, tubes.go, stats.go. If it needs space on the disk, need says so (put.go).
//
// Most commands can be composed of the operations of package core, one visit each. A new
// operation is needed when one visit must see or change something in one step. It takes an
// OpKind and a method of Op that fills it (shard/core/op.go), a case in Core.Apply (core.go),
// and what it does beside its noun (transition.go for the life of a job). If it changes what
// must outlive the process, OpKind.Records says so (recording.go), and it appends a record of
// what became of the job; a Replay must bring the same job back.
//
// These tests run it: the naive twin of the core plays random histories of all operations
// (shard/core/model_test.go, drive_test.go); a conversation in codec/conversation/testdata is
// played by the simulator, by polystalkd and by beanstalkd; random histories
// (codec/conversation/beanstalkops.go) are compared with beanstalkd by package e2e/wire of the program; and the
// simulator's histories (router/sim) look for the moment at which each answer was true.
package beanstalkd

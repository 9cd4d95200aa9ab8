// Package beanstalkd speaks beanstalkd's protocol on a session: it parses commands (package
// codec/beanstalk), runs them in the shard of the tube or the job, and replies.
//
// The life of a command:
//
//	session.Loop.Input -> conn.Input -> codec/beanstalk.Parse -> conn.dispatch
//	   which fills the operation, sets the method for the reply, and visits a shard:
//	     free: it runs in place; busy: the reply comes later as a message
//	   conn.Replied -> that method: appends the reply, or visits the next shard
//	one write per turn
//
// A new command needs a Kind in the codec (see there), a case in dispatch (commands.go) and
// a method that takes the reply, in the file of its topic: commands.go for jobs, put.go,
// reserve.go, tubes.go or stats.go. If it needs space on the disk, add it to need (put.go).
//
// Most commands can be composed of existing operations of package core, one visit each. A new
// operation is needed only if one visit must read or change something in one step. It needs an
// OpKind and a method of Op that fills it (shard/core/op.go), a case in Core.Apply (core.go),
// and its code in the file of its topic (transition.go for the life of a job). If it changes
// durable state, add it to OpKind.Records (recording.go), and append a record of the job's new
// state; a Replay must restore the same job.
//
// These tests cover it. The naive model of the core plays random histories of all operations
// (shard/core/model_test.go, drive_test.go). The simulator, polystalkd and beanstalkd play the
// conversations in codec/conversation/testdata. Package e2e/wire compares random histories
// (codec/conversation/beanstalkops.go) with beanstalkd. For the histories of the simulator
// (router/sim), a checker looks for the moment at which each reply was true.
package beanstalkd

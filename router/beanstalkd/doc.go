// Package beanstalkd speaks beanstalkd's protocol on a session: it parses commands (package
// codec/beanstalk), has them run where the tube or the job lives, and answers.
//
// The life of a command:
//
//	session.Loop.Input -> conn.Input -> codec/beanstalk.Parse -> conn.dispatch
//	   which fills the operation, says which method takes the reply, and visits a shard:
//	     free: it is run in place; busy: it comes back with a message
//	   conn.Took -> that method: appends the answer, or visits the next shard
//	one write a turn
//
// A new command takes a Kind in the codec (see there), a case in dispatch (commands.go)
// and a method that takes the reply, beside its noun: jobs in commands.go, put.go,
// reserve.go, tubes.go, stats.go, lists.go. If it needs space on the disk, needsSpace says
// so (room.go).
package beanstalkd

// Package beanstalkd puts load on a server in beanstalkd's protocol: a connection
// that checks every reply, and the workloads.
//
// A workload of one name is one file of that name, but for those that differ
// little: stock.go has put and drain, flow.go one-tube and wakeup, tubes.go
// many-tubes and multi-watch, cycle.go cycle, idle-tubes and big-bodies. The
// table of all of them, and what the load tester needs to know besides, is the
// variable Protocol.
//
// Replies are read here, in reply.go, and not by the job server's own codec: a
// mistake that both shared would not be seen. The package imports workload,
// drive and latency; but for tests, main.go alone imports it.
package beanstalkd

import "polystalk/loadtest/workload"

// Protocol is beanstalkd's.
var Protocol = &workload.Protocol{
	Name:      "beanstalkd",
	Addr:      "127.0.0.1:11300",
	Args:      "-l 127.0.0.1 -p {port}",
	Unit:      "command answered",
	First:     "cycle",
	Version:   version,
	Workloads: workloads,
	Bench:     benchLoads,
	Goals:     goals,
}

var workloads = map[string]workload.Spec{
	"cycle": {Help: "put, reserve, delete, every connection on a tube of its own",
		Traits: workload.Constant, Build: newCycle},
	"one-tube": {Help: "producers and consumers, half of the connections each, meet on one tube",
		Traits: workload.Pairs, Check: stampedBodies, Build: newOneTube},
	"put": {Help: "put only, every connection into a tube of its own",
		Traits: workload.Constant, Build: newPut},
	"drain": {Help: "reserve and delete -count jobs that were put before (default 200000)",
		Defaults: workload.Load{Count: 200_000}, Traits: workload.Once, Build: newDrain},
	"wakeup": {Help: "consumers block, one producer's put wakes one: latency from put to RESERVED",
		Traits: workload.Pairs, Check: wakeupKnobs, Build: newWakeup},
	"many-tubes": {Help: "cycle on -tubes tubes, a connection moving on to its next one every turn (default 5000)",
		Defaults: workload.Load{Tubes: 5000}, Build: newManyTubes},
	"idle-tubes": {Help: "cycle beside -tubes tubes that hold one delayed job each (default 5000)",
		Defaults: workload.Load{Tubes: 5000}, Build: newIdleTubes},
	"held": {Help: "one connection holds -held reservations and deletes them in shuffled order (default 40000)",
		Defaults: workload.Load{Conns: 1, Held: 40_000}, Traits: workload.Alone, Check: oneConnection, Build: newHeld},
	"multi-watch": {Help: "cycle over -tubes watched tubes, put going round them (default 16)",
		Defaults: workload.Load{Tubes: 16}, Build: newMultiWatch},
	"laravel": {Help: "what Laravel workers send: polls of two queues, a push, stats-job, new connections",
		Defaults: workload.Load{Tubes: 4, Reconnect: 10}, Check: laravelKnobs, Build: newLaravel},
	"connect": {Help: "connect, use, put, close: every put on a connection of its own, 16 at a time",
		Defaults: workload.Load{Conns: 16}, Traits: workload.Unpaced | workload.Constant, Check: connectKnobs, Build: newConnect},
	"big-bodies": {Help: "cycle with bodies of 60000 bytes, 8 connections",
		Defaults: workload.Load{Body: 60_000, Conns: 8}, Traits: workload.Constant, Build: newCycle},
	"memory": {Help: "resident memory of -count ready jobs (default 1000000), and after their drain",
		Defaults: workload.Load{Count: 1_000_000, Conns: 4, Depth: 64}, Traits: workload.Once | workload.Alone | workload.Unpaced, Build: newMemory},
}

package main

// workloads by name. The help says what a turn does; each workload's type has
// the whole definition.
var workloads map[string]spec

func init() { // not an initializer: building a workload looks its spec up
	workloads = map[string]spec{
		"cycle": {help: "put, reserve, delete, every connection on a tube of its own",
			build: newCycle, constant: true},
		"one-tube": {help: "producers and consumers, half of the connections each, meet on one tube",
			build: newOneTube, pairs: true, check: stampedBodies},
		"put": {help: "put only, every connection into a tube of its own",
			build: newPut, constant: true},
		"drain": {help: "reserve and delete -count jobs that were put before (default 200000)",
			defaults: Load{Count: 200_000}, once: true, build: newDrain},
		"wakeup": {help: "consumers block, one producer's put wakes one: latency from put to RESERVED",
			build: newWakeup, pairs: true, check: wakeupKnobs},
		"many-tubes": {help: "cycle on -tubes tubes, a connection moving on to its next one every turn (default 5000)",
			defaults: Load{Tubes: 5000}, build: newManyTubes},
		"idle-tubes": {help: "cycle beside -tubes tubes that hold one delayed job each (default 5000)",
			defaults: Load{Tubes: 5000}, build: newIdleTubes},
		"held": {help: "one connection holds -held reservations and deletes them in shuffled order (default 40000)",
			defaults: Load{Conns: 1, Held: 40_000}, alone: true, build: newHeld, check: oneConnection},
		"multi-watch": {help: "cycle over -tubes watched tubes, put going round them (default 16)",
			defaults: Load{Tubes: 16}, build: newMultiWatch},
		"laravel": {help: "what Laravel workers send: polls of two queues, a push, stats-job, new connections",
			defaults: Load{Tubes: 4, Reconnect: 10}, build: newLaravel, check: laravelKnobs},
		"big-bodies": {help: "cycle with bodies of 60000 bytes, 8 connections",
			defaults: Load{Body: 60_000, Conns: 8}, build: newCycle, constant: true},
		"memory": {help: "resident memory of -count ready jobs (default 1000000), and after their drain",
			defaults: Load{Count: 1_000_000, Conns: 4, Depth: 64}, once: true, alone: true, unpaced: true, build: newMemory},
	}
}

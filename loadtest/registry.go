package main

// workloads by name. The help says what one turn does and what knobs mean.
var workloads map[string]spec

func init() { // not an initializer: building a workload looks its spec up
	workloads = map[string]spec{
		"cycle": {help: "put, reserve, delete, every connection on a tube of its own",
			build: newCycle, constant: true},
		"idle-tubes": {help: "cycle beside -tubes tubes that hold one delayed job each (default 5000)",
			defaults: Load{Tubes: 5000}, build: newIdleTubes},
		"big-bodies": {help: "cycle with bodies of 60000 bytes, 8 connections",
			defaults: Load{Body: 60000, Conns: 8}, build: newCycle, constant: true},
	}
}

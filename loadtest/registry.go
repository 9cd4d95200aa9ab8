package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A protocol is what a server speaks, and how it is driven by it.
type protocol struct {
	addr  string // where a server listens unless told otherwise
	args  string // of a command line that has no {port}
	unit  string // what an operation is, for reports
	first string // workload unless told otherwise
	// version asks the server; it is what tells that the server is ready.
	version      func(ctx context.Context, addr string) (string, error)
	workloads    map[string]spec
	bench, goals []string
}

const (
	beanstalkdProtocol = "beanstalkd"
	gearmanProtocol    = "gearman"
)

// protocols by name. The help of a workload says what a turn does; its type has
// the whole definition.
var protocols map[string]*protocol

func init() { // not an initializer: building a workload looks its spec up
	protocols = map[string]*protocol{
		beanstalkdProtocol: {addr: "127.0.0.1:11300", args: "-l 127.0.0.1 -p {port}", unit: "command answered", first: "cycle",
			version: beanstalkdVersion, workloads: beanstalkdWorkloads(), bench: benchLoads, goals: goals},
		gearmanProtocol: {addr: "127.0.0.1:4730", args: "-L 127.0.0.1 -p {port} -l stderr -P {dir}/gearmand.pid", unit: "job or echo", first: "background",
			version: gearmanVersion, workloads: gearmanWorkloads(), bench: gearmanBench, goals: gearmanGoals},
	}
}

func protocolNamed(name string) (*protocol, error) {
	p, ok := protocols[name]
	if !ok {
		return nil, fmt.Errorf("there is no protocol %q; the protocols are %s", name, sortedNames(protocols))
	}
	return p, nil
}

func sortedNames[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), " ")
}

func beanstalkdWorkloads() map[string]spec {
	return map[string]spec{
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
		"connect": {help: "connect, use, put, close: every put on a connection of its own, 16 at a time",
			defaults: Load{Conns: 16}, unpaced: true, build: newConnect, constant: true, check: connectKnobs},
		"big-bodies": {help: "cycle with bodies of 60000 bytes, 8 connections",
			defaults: Load{Body: 60_000, Conns: 8}, build: newCycle, constant: true},
		"memory": {help: "resident memory of -count ready jobs (default 1000000), and after their drain",
			defaults: Load{Count: 1_000_000, Conns: 4, Depth: 64}, once: true, alone: true, unpaced: true, build: newMemory},
	}
}

func gearmanWorkloads() map[string]spec {
	return map[string]spec{
		"background": {help: "submit background jobs that nobody takes, with unique ids, into -tubes functions (default 1) of each load process",
			defaults: Load{Tubes: 1}, counted: true, build: newBackground},
		"foreground": {help: "-conns clients submit and wait, -workers workers do it (default a quarter): latency to WORK_COMPLETE",
			workers: true, build: newForeground, check: enoughWorkers},
		"drain": {help: "workers take and complete -count jobs that were submitted before (default 200000)",
			defaults: Load{Count: 200_000, Tubes: 1}, once: true, unpaced: true, build: newGearmanDrain},
		"echo": {help: "ECHO_REQ with a body that must come back",
			build: newEcho},
		"memory": {help: "resident memory of -count waiting jobs (default 1000000), and after their drain",
			defaults: Load{Count: 1_000_000, Conns: 4, Depth: 64, Tubes: 1}, once: true, alone: true, unpaced: true,
			build: newGearmanMemory, check: noLightLoad},
	}
}

// Package gearmand puts load on a server in Gearman's protocol: a connection that
// checks every reply, and the workloads.
//
// A workload is one file of its name; background, drain and memory share the
// account of stock.go, in which every job submitted must be taken out once. The
// table of all of them, and what the load tester needs to know besides, is the
// variable Protocol.
//
// Packets are written and read by codec/gearman, the only package of the job
// server that the load tester imports. The package imports workload and drive;
// main.go alone imports it.
package gearmand

import "polystalk/loadtest/workload"

// Protocol is Gearman's.
var Protocol = &workload.Protocol{
	Name:      "gearman",
	Addr:      "127.0.0.1:4730",
	Args:      "-L 127.0.0.1 -p {port} -l stderr -P {dir}/gearmand.pid",
	Unit:      "job or echo",
	First:     "background",
	Version:   version,
	Workloads: workloads,
	Bench:     benchLoads,
	Goals:     goals,
}

var workloads = map[string]workload.Spec{
	"background": {Help: "submit background jobs that nobody takes, with unique ids, into -tubes functions (default 1) of each load process",
		Defaults: workload.Load{Tubes: 1}, Traits: workload.OnceCounted, Build: newBackground},
	"foreground": {Help: "-conns clients submit and wait, -workers workers do it (default a quarter): latency to WORK_COMPLETE",
		Traits: workload.Workers, Check: enoughWorkers, Build: newForeground},
	"drain": {Help: "workers take and complete -count jobs that were submitted before (default 200000)",
		Defaults: workload.Load{Count: 200_000, Tubes: 1}, Traits: workload.Once | workload.Unpaced, Build: newDrain},
	"echo": {Help: "ECHO_REQ with a body that must come back",
		Build: newEcho},
	"memory": {Help: "resident memory of -count waiting jobs (default 1000000), and after their drain",
		Defaults: workload.Load{Count: 1_000_000, Conns: 4, Depth: 64, Tubes: 1}, Traits: workload.Once | workload.Alone | workload.Unpaced, Check: noLightLoad, Build: newMemory},
}

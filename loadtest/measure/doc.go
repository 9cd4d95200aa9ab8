// Package measure measures one load against one server, once. Measure is called in
// the process that people start; it starts load processes, which are this
// same program and call Worker, so that they can be pinned to other cores than
// the server and be several.
//
// The two talk in JSON lines. A load process reports every stage that it has
// finished and waits for a line before the next one, so that several processes
// start together and Measure can read the server's clocks in between:
//
//	plan   → setup      connected, tubes made
//	go     → warm       unmeasured load done
//	go     → measured   with the report
//	go     → end        everything torn down
//
// Before measured it also reports progress.
//
// It imports workload, which is what a load process does, proc and latency. What
// comes out is a Run, which compare and report are about.
package measure

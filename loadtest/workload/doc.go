// Package workload is what all workloads have in common: the knobs of a Load, the
// Plan that tells one load process its part, and the stages and phases in which
// Run takes a process through it.
//
//	Protocol   what a server speaks, with the table of the workloads for it
//	Spec       a workload by name: defaults, what it cannot do, how to build it
//	Load       one workload with its knobs, as flags and as a line of text
//	Env        what a workload has of its process: plan, connections, first failure
//	Phase      one timed stretch: lanes, and what does not count
//	Run        setup, warm-up, measured phase, teardown, and the Report
//
// To add a workload, write its type in the package of its protocol and name it
// in that package's table; to add a protocol, write a package with such a table
// and name it in main.go.
//
// It imports drive, latency and proc. The protocols (beanstalkd, gearmand) and
// measure, which starts load processes, import it; it knows none of them.
package workload

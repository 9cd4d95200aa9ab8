// Package bench is the load tester: it drives servers with workloads, checks every reply,
// measures what the replies cost, and compares servers.
//
//	session     the command line; report, chart: what comes out
//	compare     rounds of loads against servers; server starts one; summary has medians,
//	            ratios and assertions; goals has the published loads
//	run         a load process: stages, phases, what all workloads share; load: settings
//	link, lane  one connection; its pace and its latencies
//	beanstalkd  the protocol, its workloads (flow, connect: those with a file of their own)
//	gearmand    the same for Gearman
//	floor       the server that answers constants
//	proc        processes, their cores, CPU and memory
//
// In a comparison every server runs pinned to some cores and the load to others, a fresh
// process for every run; rounds are interleaved, and what counts are the ratios between
// servers within a round. The load runs in processes of its own, so that they can be pinned
// to other cores than the server and be several:
//
//	plan → connected, tubes made, warm    go → measured, with the report    go → cleaned, ended
//
// link and lane are the path of every command. A load process must not be slower than the
// server, so an exchange takes one system call less than net.Conn needs, latencies are
// gathered before a lock is taken, and nothing is allocated for a command. In an open loop a
// latency counts from the time at which the command was due.
//
// To add a workload, write a function that builds it and name it in its protocol's table. A
// wrong reply ends the session with an error. Of the job server's packages this one imports
// only the Gearman codec.
package bench

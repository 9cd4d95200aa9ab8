// Package bench is the load tester: it drives servers with workloads, checks every reply,
// measures what the replies cost, and compares servers.
//
//	session     the command line; report, chart: what comes out
//	compare     rounds of loads against servers; server starts one; summary has medians,
//	            ratios and assertions; goals has the published loads
//	run         a load process: phases, what all workloads share; load: settings
//	conn, lane  one connection; its pace and its latencies
//	beanstalkd  the protocol, its workloads (flow, connect: those with a file of their own)
//	gearmand    the same for Gearman
//	jobs        the workload job, which other servers can do too: beanstalkd, Redis, and in files of
//	            their own nats and amqp
//	floor       the server that answers constants
//	proc        processes, their cores, CPU and memory
//
// In a comparison every server runs pinned to some cores and the load to others, a fresh process
// for every run: the load process gets a plan, and returns a Run. Rounds are interleaved, and the
// results are the ratios between servers in the same round.
//
// conn and lane are the path of every command. A load process must not be slower than the server,
// so an exchange takes one system call less than with net.Conn, latencies are collected before a
// lock is taken, and no command allocates. In an open loop a latency counts from the time at which
// the command was due.
//
// To add a workload, write a function that sets it up and add it to its protocol's table. A wrong
// reply ends the session with an error. This package imports only the Gearman codec of the job
// server's packages.
package bench

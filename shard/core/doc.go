// Package core holds jobs: the state machine that owns a part of the tubes.
//
// The Core is deterministic. It takes (now, operation) and answers with a
// Reply and with woken Waiters; it reads no clock, does no I/O, starts no
// goroutine and draws no random number, so the same history gives the same
// state anywhere: in a test, in the simulator, in a journal's replay.
//
// A job is in exactly one place, named by its State:
//
//	 put with delay               release with delay
//	----------------> [Delayed] <------------.
//	                      |                   |
//	            due, kick |                   |
//	                      v     reserve       |     delete
//	----------------> [Ready] ---------> [Reserved] --------> *gone*
//	      put             ^  \                |  |
//	                      |   \  release, TTR |  |
//	                      |    `--------------'  |
//	                 kick |                      | bury
//	                      |                      |
//	                  [Buried] <-----------------'
//
// (delete also works on ready, delayed and buried jobs, and reserve-job takes
// a job out of any of these three. Source: the protocol document of
// beanstalkd 1.13, "Job Lifecycle".)
//
// Time is that of a clock which nobody sets; what of it counts for what, and how it
// becomes the time of day in a journal, is in moment.go.
//
// Gearman sessions submit jobs instead of putting them (function.go): a function is a
// tube, what a submitted job has besides is in a side record, and who waits for
// it, or sleeps until there is one, is told by Mail that a Shard posts once it is
// released.
//
// Three things may be looked at, or changed, without owning: a tube's Face, which
// publishes its best key, a shard's ReadyLog, which tells what became better, and a
// client's Waiter, the word that decides which shard ends its wait. They make a
// reserve over several shards take place at one moment; how is told where the router
// does it (survey.go, reserve.go). A core asks a Waiter and its Guard while it
// applies an operation: their answers are inputs, like the time.
//
// Budget: 96 bytes a job record, 16 a heap entry, about 8 for the table of
// ids, and the body in a size class at most 1/8 too large, all of it but the
// table and the heap outside the collector's view. A watch takes 16 bytes there,
// 4 in its client's list and 8 in the index of a long one; a router's watch list
// as much again. put, reserve and delete
// allocate nothing once the slabs are warm.
package core

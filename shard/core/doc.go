// Package core holds jobs: the state machine that owns a part of the tubes.
//
// The Core is deterministic. It takes (now, operation) and answers with a
// Reply and with woken Waiters; it reads no clock, does no I/O, starts no
// goroutine and draws no random number. So the same history gives the same
// state anywhere, in a test, in the simulator, in a journal's replay, where a history is
// more than operations:
//
//   - OpSubmit takes the id of a new job from Numbers while it applies, since only then
//     is it known whether the job is new. The id depends on the order in which all shards
//     ask.
//   - A reserve over several shards asks the client's Waiter, and its Guard, which depend on
//     the other shards. The choice of the sleeping worker to wake depends on Mail and
//     Sleepers, atomics that sessions move at any time.
//
// These answers are inputs, like the time. They are in no operation, and nobody notes them.
// That is why records are kept and replicated, and operations never: a record (package
// record) tells what came of an operation, the job as it is now, and a Replay of records
// gives the same jobs wherever and whenever it is done. What is not in records does not
// outlive a core: clients, watch lists, reservations, and submitted jobs that are only done
// while somebody follows them.
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
// Time comes from a clock that is never set. timer.go says which clock counts for which
// duration, and how a journal stores the time of day.
//
// Jobs are records without pointers, in slabs (jobrecord.go, submissionrecord.go). The
// containers link records by handle and know no rule: List keeps the order of arrival, Heap
// the order of a key, IDTable and UniqueTable find jobs by id and by unique id, LargeBodies
// keeps bodies that are too large for slabs. A container panics when a record is not where
// the record says.
//
// Jobs are put into tubes, or submitted to functions (function.go, submission.go). A
// function is a tube, and the two kinds of clients see each other's jobs. What a submitted
// job has besides is in a side record: a unique id by which others join it, and its
// followers, the clients that want to hear what becomes of it. They, and workers that sleep
// until there is a job, are told by Mail that a Shard posts once it is released.
//
// An Op is made by the method that has the operation's name, in op.go and op_function.go;
// what it does, reads and answers stands there. Apply runs it: transition.go has the life of
// a job, submit.go what is different for submitted ones.
//
// Three things may be read or changed without owning the shard: a tube's Face, which
// publishes its best key; a shard's ReadyLog, which lists the tubes that got a better job; and
// a client's Waiter, the word that decides which shard ends its wait. With them a reserve over
// several shards takes place at one moment; the router's package ops has the proof. All else
// belongs to the owner of the shard. Large bodies, and the bodies that a Relay carries, never
// change, so they are shared.
//
// An operator has operations of its own (op_operator.go). They name tubes, and create none,
// except for a copy. A visit does a bounded amount of work, however many jobs there are, and
// reports that there is more. Lists are in the order in which jobs entered their state. A scan
// goes by the places of the records, which do not move while their jobs live. So it needs no
// memory of what it has shown, and between two visits nothing is kept here. One thing outlives
// a visit: a job that an operator moves to another tube belongs to no client until it is
// dropped, or put back (move.go).
//
// A flush ends all jobs of a tube at one moment, and gives their memory back later, in parts
// (flush.go). Only code that walks over records, not over a tube, meets such jobs.
//
// Cheap assertions are always on: a job that enters a container while it is in another, a handle
// that is closed, an index out of its heap panic with the values, since no answer would be right
// any more. The tests walk everything after each operation (invariants_test.go).
//
// A client is made with the number of its connection, which is unique. A reserved job refers
// to its client by it, since a handle is used again once its client has gone.
//
// Budget: 96 bytes a job record, 16 a heap entry, about 8 for the table of
// ids, and the body in a size class at most 1/8 too large, all of it but the
// table and the heap outside the collector's view. A submitted job takes 28 more, its
// unique id and about 13 in the index of those. A watch takes 16 bytes there,
// 4 in its client's list and 8 in the index of a long one; a router's watch list
// as much again. A tube takes 288 bytes and its name, and 320 for its Flow once somebody has
// reserved from it. put, reserve and delete allocate nothing once the slabs are warm.
package core

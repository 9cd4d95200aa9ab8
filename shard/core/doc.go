// Package core holds jobs: the state machine that owns a part of the tubes.
//
// The Core is deterministic. It takes (now, operation) and answers with a Reply and with woken
// Waiters; it reads no clock, does no I/O, starts no goroutine and draws no random number. So the
// same history gives the same state in a test, in the simulator and in a journal's replay. But a
// history consists of more than operations:
//
//   - OpSubmit takes the id of a new job from Numbers while it applies, since only then
//     is it known whether the job is new. The id depends on the order in which all shards
//     ask.
//   - A reserve over several shards asks the client's Waiter, and its Guard, which depend on
//     the other shards. The choice of the sleeping worker to wake depends on Mail and
//     Sleepers, atomics that sessions change at any time.
//
// These answers are inputs, like the time. No operation contains them, and nothing stores
// them. That is why records are stored and replicated, and operations are not. A record
// (package record) describes the result of an operation: the job as it is now. A Replay of
// records gives the same jobs everywhere. State without records ends with the core: clients,
// watch lists, reservations, and submitted jobs that run only while a client follows them.
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
// Time comes from a clock that is never set. timer.go says which clock measures which
// duration, and how a journal stores the time of day.
//
// Jobs are records without pointers, in slabs (jobrecord.go, submissionrecord.go). The
// containers link records by handle and contain no rules of the protocol. A List keeps the
// order of arrival, and a Heap the order of a key. The idTable and the uniqueTable find jobs
// by id and by unique id. The largeBodies keep bodies that are too large for slabs. A
// container panics when a record is not where its links say.
//
// Jobs are put into tubes, or submitted to functions (function.go, submission.go). A
// function is a tube, and the two kinds of clients see each other's jobs. A submitted job has
// an additional record with a unique id, by which other submissions join it, and with its
// followers, the clients that wait for its result. Followers and sleeping workers are notified
// by Mail, which a Shard posts after it is released.
//
// The method of Op with the name of the operation makes it and documents it (op.go,
// op_function.go). Apply runs it: transition.go has the life of a job, submit.go what is
// different for submitted ones.
//
// Three things may be read or changed without owning the shard: a tube's Face, which
// publishes its best key; a shard's ReadyLog, which lists the tubes that got a better job; and
// a client's Waiter, the word that decides which shard ends its wait. They make a reserve over
// several shards atomic; the router's package ops has the proof. Everything else belongs to
// the owner of the shard. Large bodies, and the bodies that a Relay carries, never change, so
// they are shared.
//
// Operators have their own operations (op_operator.go). Only a copy creates a tube. A visit
// does a bounded amount of work, and reports whether there is more. Lists are in the order in
// which jobs entered their state. A scan follows the positions of the records, which do not
// change while their jobs live. So it needs no memory of the jobs that it has shown, and the
// core keeps nothing between two visits. There is one exception: a job that an operator moves
// to another tube belongs to no client until it is dropped or put back (move.go).
//
// A flush ends all jobs of a tube at one moment, and frees their memory later, in parts
// (flush.go). Only code that walks over records, not over a tube, sees such jobs.
//
// Cheap assertions are always on. A job that enters a second container, a closed handle, and
// an index out of its heap panic with the values, since the state is broken and every later
// answer may be wrong. The tests check all invariants after each operation
// (invariants_test.go).
//
// A client is made with the number of its connection, which is unique. Lists for operators
// name the client by both, since its handle is used again after it closes.
//
// Memory: 96 bytes for a job record, 16 for a heap entry, about 8 in the table of ids, and a
// body in a size class at most 1/8 too large. All but the table and the heap is outside the
// collector's view. A submitted job takes 28 bytes more, its unique id, and about 13 bytes in
// the index of unique ids. A watch takes 16 bytes outside that view, 4 in its client's list and
// 8 in the index of a long list; a router's watch list takes as much again. A tube takes 288
// bytes and its name, and 320 for its Flow after the first reserve. put, reserve and delete
// allocate nothing once the slabs are warm.
package core

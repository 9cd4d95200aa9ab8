// Package core holds jobs: the state machine that owns a part of the tubes.
//
// The Core is deterministic. It takes (now, operation) and answers with a
// Reply and with woken Waiters; it reads no clock, does no I/O, starts no
// goroutine and draws no random number. So the same history gives the same
// state anywhere, in a test, in the simulator, in a journal's replay, where a history is
// more than operations:
//
//   - OpSubmit takes the id of a new job from Numbers while it applies, since only then
//     is it known whether the job is new. Which id that is depends on the order in which
//     all shards ask.
//   - A reserve over several shards asks the client's Waiter, and its Guard, which depend on
//     the other shards; and who is woken of the sleeping workers depends on Mail and
//     Sleepers, atomics that sessions move whenever they like.
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
// Time is that of a clock which nobody sets; what of it counts for what, and how it
// becomes the time of day in a journal, is in timer.go.
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
// Three things may be looked at, or changed, without owning: a tube's Face, which
// publishes its best key, a shard's ReadyLog, which tells what became better, and a
// client's Waiter, the word that decides which shard ends its wait. They make a
// reserve over several shards take place at one moment; how is told where the router
// does it. All else belongs to whoever owns the shard. Bodies that are Large, and what a
// Relay carries, never change, and are shared by whoever has them.
//
// An operator looks at jobs and acts on them by operations of its own (op_operator.go),
// which name tubes, and make none but that of a copy. A visit does a bounded amount of work,
// however many jobs there are, and says that there is more. Lists are in the order in which
// jobs entered their state. A scan goes by the places of the records, which stay where they
// are while their jobs live: so it need not remember what it has shown, and between two
// visits nothing is kept here.
// What an operator moves to another tube is the one thing that outlives a visit: such a job is
// nobody's until it is dropped, or put back to where it was (move.go).
//
// A flush ends all jobs of a tube at one moment, and gives back later, in parts, what they have
// taken (condemn.go). Only who walks over records, not over a tube, meets such jobs.
//
// What must not be is checked twice. Cheap assertions are always on: a job that enters a
// container while it is in another, a handle that is closed, an index out of its heap
// panic with the values, since no answer would be right any more. Check walks everything,
// for tests and for an operator who asks.
//
// A client is made with the number of its connection, which no other has: by that a reserved
// job tells who has it, where a handle is another's once its client has gone.
//
// Budget: 96 bytes a job record, 16 a heap entry, about 8 for the table of
// ids, and the body in a size class at most 1/8 too large, all of it but the
// table and the heap outside the collector's view. A submitted job takes 28 more, its
// unique id and about 13 in the index of those. A watch takes 16 bytes there,
// 4 in its client's list and 8 in the index of a long one; a router's watch list
// as much again. A tube takes 288 bytes and its name, and 320 for its Flow once somebody has
// reserved from it. put, reserve and delete allocate nothing once the slabs are warm.
package core

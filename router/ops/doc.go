// Package ops runs operations that need several visits to shards, and has the data for a
// visit: the places of tubes and jobs, and the server's time.
//
//	Map        the name of a tube -> its slot, which never changes -> a shard
//	IDs        allocates job ids, and finds the shard of a job by its id
//	Tubes      the names of all tubes, in the order of list-tubes
//	Clock      stamps the shard.Batch with which a shard is visited
//	Reserve    takes the best job of a watch list, which may have tubes in several shards
//	WatchList  the tubes of a client; it makes them publish the keys of their best jobs
//	Handles    the ids of a client in each shard
//	Walk       visits all shards, one after the other
//	Kick       moves many jobs of one tube in bounded visits
//	Leave      releases everything that a client has
//
// Reserve, Walk, Kick and Leave are state machines: the caller passes the reply of a visit,
// and they fill the core.Op of the next visit and name its shard. They own no shard, never
// block, and know neither protocols nor connections. So a session can run them in turns of
// its event loop, and so can a goroutine that may block (package direct) or a test.
//
// Two comments explain how a reserve chooses among shards. Reserve has its steps, and the
// proof that no job is ready while a client waits. survey has the proof that a served client
// gets the best job of all shards at one moment.
//
// A client has a Handles and a WatchList. They and the values above belong to the goroutine
// that runs the operations, with one exception: the shard that a Reserve visits calls its
// core.Guard, the survey, while the client waits for the reply. Methods that take a reply
// only note the next step, so the caller may own a shard. For Reserve.Look, which visits
// shards itself, it must own none.
//
// A Map, IDs, Tubes and a Clock are shared: any goroutine may call them at any time, with or
// without a shard, unless a comment says otherwise. None of them waits for a shard. Finding
// and finishing ids takes no lock. Tubes has a lock, which is held for one change or for a
// snapshot, never for a walk over the list.
package ops

// None stands for no shard.
const None = -1

// A Hop is the next step of a walk over shards.
type Hop struct {
	Shard int  // the shard to visit; None: the walk is over
	Later bool // visit it in a later turn, since this turn has done its share of work
}

// walkOver is the Hop at the end of a walk.
var walkOver = Hop{Shard: None}

// Package ops runs operations that take several visits to shards, and knows what a visit
// needs: where tubes and jobs live, and the server's time.
//
//	Map        the name of a tube -> its slot, fixed for ever -> a shard
//	IDs        gives out job ids, and finds the shard of a job by its id
//	Tubes      the names of all tubes, in the order of list-tubes
//	Clock      stamps the shard.Batch with which a shard is visited
//	Reserve    takes the best job of a watch list that reaches over several shards
//	WatchList  the tubes of a client; it publishes the keys of their best jobs
//	Handles    how each shard knows a client
//	Walk       visits all shards, one after the other
//	Kick       moves many jobs of one tube in bounded visits
//	Leave      gives back everything that a client has
//
// Reserve, Walk, Kick and Leave are values: the caller feeds them a reply, they fill the
// core.Op of the next visit and name its shard. They own no shard, block on nothing, and
// know neither protocols nor connections. So a session can run them in turns of its event
// loop, a goroutine that may block can (package direct), and a test can.
//
// How a reserve chooses among shards is explained twice: Reserve has its steps, and why a
// waiting client has nothing ready; survey has the proof that a served client has the best
// job of all at one moment.
//
// A client is its Handles and its WatchList. They and the values above belong to the
// goroutine that runs the operations, with one exception: the shard that a Reserve visits
// calls its core.Guard, the survey, while the client waits for the reply. Calls that take
// a reply only note what is next, so they may be made while that shard is owned.
// Reserve.Look visits shards itself, and must not.
//
// A Map, IDs, Tubes and a Clock are shared: any goroutine may call them at any time, with
// or without a shard, except where a comment says otherwise. None of them waits for a
// shard. IDs are found and finished without a lock. The names of tubes have a lock, which
// is held for one change or for a snapshot, never for a walk over the list.
package ops

// None stands for no shard.
const None = -1

// A Hop is the next step of a walk over shards.
type Hop struct {
	Shard int  // the shard to visit; None: the walk is over
	Later bool // the work of this turn is used up: let others have their turns first
}

// walkOver ends a walk.
var walkOver = Hop{Shard: None}

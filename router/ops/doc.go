// Package ops holds the operations that take several visits to shards: to reserve the
// best job of a watch list that reaches over many of them, to publish the keys of such a
// list, to ask all shards one after the other, to kick many jobs in parts, and to give
// back all that a client has.
//
// How a reserve chooses among shards is told in two places, and the second has the proof:
// Reserve (reserve.go) has its steps, and why who waits has nothing ready; survey (survey.go)
// shows that who is served has the best job of all at one moment.
//
// Each is a value that is fed the replies and names the shard to be visited next; it
// fills the core.Op for that visit itself. It owns no shard, waits for nobody, and knows
// no protocol and no connection. So whoever can visit a shard can run one: a session by
// turns of its event loop, a goroutine that may wait (package direct), a test.
//
// A client of the shards is its Handles, one for each shard that knows it, and its
// WatchList. Both belong to whoever runs the operations, and so do these values: none of
// them may be used by two goroutines at a time, with one exception: whoever runs a visit for
// a Reserve calls its core.Guard, which is its survey, while the client waits for the answer.
//
// The calls that take a reply may be made while the shard of that reply is owned, as
// they only note what is next. Reserve.Look visits shards, and must not.
package ops

// None is what names the next shard when there is none.
const None = -1

// A Hop is what is next in a walk over shards.
type Hop struct {
	Shard int  // to be visited; None: the walk is over
	Later bool // bounded work is not done: others are to have their turns first
}

// walkOver is the end of a walk.
var walkOver = Hop{Shard: None}

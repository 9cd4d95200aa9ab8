// Package placement knows where tubes and jobs live: what a router must know to find
// the shard in which an operation is to run, and nothing of what is done there.
//
//	the name of a tube --> its slot, fixed for ever --> a shard, by how many there are
//	the id of a job    --> a shard, noted when the id was given out
//	the tubes          --> their names, in the order of list-tubes
//
// A Map has all of it, for one server. IDs, Tubes and Finisher are its parts. What
// protocols think of names (which differ by the case of letters only, which of them not
// everyone can say) is given by who makes the Map, as functions.
//
// Everything may be called by any goroutine at any time, with a shard owned or without,
// but for what says otherwise: a Finisher belongs to one owner, and a Map is filled
// before it is used. Nothing waits for a shard. IDs are found and finished without a
// lock. The names of tubes are behind one, which is taken when a tube comes or goes
// and to take a snapshot of the list, in which neither waits for a walk over it.
//
// It imports shard and shard/core: no codec, and nothing that knows connections.
package placement

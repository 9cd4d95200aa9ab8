// Package direct runs operations on shards from a goroutine that may wait: for whoever is
// no connection, as the end of the server that looks whether jobs are left, or an
// interface for operators. It drives the same values as sessions do (package ops).
//
// A Caller takes a free shard and runs its operation in place, as an event loop does; with
// a busy one it leaves a message and sleeps until the answer has come. It must not be used
// by an event loop, which others wait for.
//
// Its replies name the commit on which they depend. Whoever tells somebody of a change
// waits for that at a Gate first, and before a change that takes space asks there for room.
package direct

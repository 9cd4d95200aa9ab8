// Package memory is about the memory that a server keeps besides jobs, which are in slabs
// of their own: how much all connections together make it keep (Account), large bodies that
// no job has any more and the collector that is to take them (Freed, Reclaim), and buffers
// that are lent (TakeBuffer).
//
// It counts and decides when, for one server; what is kept less of, or cut off, is up to
// who calls it. Nothing of it waits for a shard or for a loop, so all of it may be called
// with either owned, but for Reclaim, which is a goroutine's. It imports shard/core, for
// what a body is.
package memory

package cluster

import (
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// An Entry is one step of the history on which the members agree.
type Entry = wal.Entry

// A Log keeps entries on this node's disk. Append, Sync and GiveUp are called by one goroutine
// each, the others by a Machine, meanwhile. It is a journal's Entries; tests have others.
type Log interface {
	// First is the lowest index whose entry is there; zero: there is none.
	First() uint64
	// Last is the index of the last entry; zero: there is none.
	Last() uint64
	// Term is that of entry i, which lies in First…Last. That of entry zero is zero.
	Term(i uint64) (uint64, error)
	// Read gives the entries lo…hi-1, which lie in First…Last: at least one, and then as
	// many as have about size bytes of data together.
	Read(lo, hi uint64, size int) ([]Entry, error)
	// Committed is the index up to which everything was committed, as far as the log itself
	// knew when it was opened: what the Replica has of it already.
	Committed() uint64

	// Changes are the entries behind after, and up to Committed, that change the members.
	Changes(after uint64) []Entry

	// Append adds entries with indexes in a row. Those of the log from the first of them on
	// are no longer there. All up to commit, as far as the log has it by then, is committed.
	Append(list []Entry, commit uint64) error
	// Sync makes durable what was appended.
	Sync() error
	// GiveUp is told of what a Floor says that the leader has given up, once that is applied.
	GiveUp(b *record.Bottom)
}

var _ Log = (*wal.Entries)(nil)

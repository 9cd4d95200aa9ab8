package commit

import (
	"polystalk/shard/stats"
	"polystalk/shard/wal"
	"polystalk/shard/wal/space"
)

// Pressure says whether changes that need space are taken.
type Pressure = space.Pressure

// The values of Pressure.
const (
	Open = space.Open // yes
	Wait = space.Wait // not now: the disk is behind
	Full = space.Full // no: there is no space left
)

// A Claim reserves space for a body that is being received.
type Claim = space.Claim

// A Storage is what sessions and the server need to know of durability: when a reply may leave,
// whether a change may be made, and what to say about it. Journal implements it; tests replace
// parts of it.
//
// Unless it says otherwise, any goroutine may call a method, whether or not it owns a shard, and
// the method never waits for a disk. After an error of the disk nothing more is acknowledged,
// and Pressure is Wait for ever.
type Storage interface {
	// Acked returns the last commit with replies that may leave: it is as safe as was asked for.
	// It never goes back.
	Acked() uint64

	// Here reports whether goroutines that wait for a commit make it, in CommitHere. It never
	// changes.
	Here() bool

	// CommitHere makes a commit if one was requested, and if that takes one write and no
	// waiting; otherwise the committer's goroutine makes it. An event loop calls it before it
	// reads Acked, and owns no shard.
	CommitHere()

	// Pressure says whether a change may be made that needs space and comes in one piece.
	// What frees space, such as a delete, need not ask.
	Pressure() Pressure

	// Notified counts the calls of the function that wakes waiting sessions, without the calls
	// that are about Acked alone. After Claim or Fits has said Wait, ask again only when
	// this has moved; so read it before you ask.
	Notified() uint64

	// Fits asks whether there may be room for a body of n bytes, without promising any. Wait
	// means to ask again after the next notification. Full means that the disk was asked since
	// the first call, and has no room.
	Fits(c *Claim, n int64) Pressure

	// Claim raises c to n bytes of records in all, if there is room. Wait means to ask again
	// after the next notification; room is made meanwhile. Full means that none could be made
	// since the first call; c is released then.
	Claim(c *Claim, n int64) Pressure

	// Release gives back what c has and waits for, once its bytes are in a Log or have
	// come to nothing.
	Release(c *Claim)

	// Segment returns the number of the file that holds what commit n wrote, or of the current
	// one. The statistics of a job show it.
	Segment(n uint64) uint64

	// Stats returns the figures of this moment, without Room.
	Stats() Stats

	// Room returns how many bytes can still be written, here and in files yet to be made. It
	// asks the disk and waits for it: event loops must not call it.
	Room() int64

	// Close makes a last commit, durable unless the policy is SyncNever, and ends the storage.
	// Nothing may be appended any more. It waits for the disk.
	Close() error
}

// Stats are what statistics and metrics tell of a Storage.
type Stats struct {
	wal.Stats
	Records, Commits uint64
	Room             int64        // what Storage.Room said, if the caller asked; else 0
	Sizes            stats.Counts // numbers of records of the commits since the start that had any
}

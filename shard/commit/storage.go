package commit

import (
	"polystalk/shard/stats"
	"polystalk/shard/wal"
	"polystalk/shard/wal/space"
)

// Pressure says whether changes that need space are accepted.
type Pressure = space.Pressure

// The values of Pressure.
const (
	Open = space.Open // yes
	Wait = space.Wait // not now: the disk is behind
	Full = space.Full // no: there is no space left
)

// A Claim reserves space for a body that is being received.
type Claim = space.Claim

// A Storage tells sessions and the server about durability: when a reply may be sent, whether a
// change may be made, and statistics. Journal implements it; tests replace parts of it.
//
// Unless its comment says otherwise, any goroutine may call a method, whether or not it owns a
// shard, and the method never waits for a disk. After an error of the disk nothing more is
// acknowledged, and Pressure is Wait for ever.
type Storage interface {
	// Acked returns the last commit that is as safe as the policy requires, so its replies may be
	// sent. It never decreases.
	Acked() uint64

	// Here reports whether goroutines that wait for a commit make it, in CommitHere. It never
	// changes.
	Here() bool

	// CommitHere makes a requested commit if it needs one write and no waiting; otherwise the
	// committer's goroutine makes it. An event loop calls it before it reads Acked, and must own no
	// shard.
	CommitHere()

	// Pressure says whether a change may be made that needs space and comes in one piece. A change
	// that frees space, such as a delete, need not ask.
	Pressure() Pressure

	// Notified counts the calls of Options.Notify, without the calls that are only about Acked.
	// After Claim or Fits has returned Wait, ask again only when Notified has changed; so read it
	// before you ask.
	Notified() uint64

	// Fits asks whether there may be room for a body of n bytes, without promising any. Wait
	// means to ask again after the next notification. Full means that the disk was asked since
	// the first call, and has no room.
	Fits(c *Claim, n int64) Pressure

	// Claim raises c to a total of n bytes of records, if there is room. Wait means to ask again
	// after the next notification; meanwhile the keeper makes room. Full means that it could make
	// none since the first call; then c is released.
	Claim(c *Claim, n int64) Pressure

	// Release gives back the bytes of c and ends its wait, once its bytes are in a Log or are not
	// needed.
	Release(c *Claim)

	// Segment returns the number of the file with the records of commit n, or of the current file.
	// The statistics of a job show it.
	Segment(n uint64) uint64

	// Stats returns the current statistics, without Room.
	Stats() Stats

	// Room returns how many bytes can still be written to existing and new files. It accesses the
	// disk, so event loops must not call it.
	Room() int64

	// Close makes a last commit, durable unless the policy is SyncNever, and ends the storage.
	// Nothing may be appended any more. It waits for the disk.
	Close() error
}

// Stats are the statistics of a Storage.
type Stats struct {
	wal.Stats
	Records, Commits uint64
	Room             int64        // the result of Storage.Room if the caller has called it; else 0
	Sizes            stats.Counts // records per commit since the start, without empty commits
}

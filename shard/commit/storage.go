package commit

import "polystalk/shard/stats"

// A Storage is what sessions and the server need to know of durability: when a reply may
// leave, whether a change may be made, and what to say about it. Journal (package
// journal) is the one there is.
//
// Unless it says otherwise, a method may be called from any goroutine, whoever owns a
// shard, and never waits for a disk. After an error of the disk nothing more is
// acknowledged, Pressure is Wait for ever, and who opened the storage has been told.
type Storage interface {
	// Acked is the last commit whose replies may leave: as safe as was asked for. Replies
	// that tell of a change carry the number of a commit, and wait until Acked has come
	// to it. It never goes back.
	Acked() uint64

	// Here reports whether commits are made by who waits for them, in CommitHere. It is
	// the same for the whole life of a Storage.
	Here() bool

	// CommitHere makes a commit if one was requested and if that takes one write and no
	// waiting; otherwise it leaves that to the committer's goroutine. An event loop calls
	// it before it looks at Acked, with no shard owned.
	CommitHere()

	// Pressure says whether a change may be made that needs space, and comes in one piece.
	// What frees space, as to delete, need not ask.
	Pressure() Pressure

	// Notified counts the calls of the function that wakes who waits, but for those that
	// are about Acked alone. After Claim or Fits has said Wait it is of no use to ask again
	// before this has moved, so read it before you ask.
	Notified() uint64

	// Fits asks whether there may be room for a body of n bytes some day, without
	// promising any. Wait means to ask again after the next notification, Full that the
	// disk was looked at since the question was first put, and has no room.
	Fits(c *Claim, n int64) Pressure

	// Claim raises c to n bytes of records in all, if there is room for them. Wait means
	// to ask again after the next notification, and that room is made meanwhile. Full means
	// that none could be made since the question was first put; c is released then.
	Claim(c *Claim, n int64) Pressure

	// Release gives back what c has and waits for, once its bytes are in a Log or have
	// come to nothing.
	Release(c *Claim)

	// Segment is the number of the file that holds what commit n wrote, or of the current
	// one. It is what the statistics of a job say.
	Segment(n uint64) uint64

	// Stats are the storage's figures of this moment, without the Room.
	Stats() Stats

	// Room is how many bytes can still be written, here and in files yet to be made. It asks
	// the disk, and waits for that: it is not for event loops.
	Room() int64

	// Close makes a last commit, durable unless no policy asks for that, and ends the
	// storage. Nobody may append to a Log any more. It waits for the disk.
	Close() error
}

// Stats are what statistics and metrics tell of a Storage.
type Stats struct {
	Oldest, Current   uint64 // numbers of segments
	Segments          int
	Bytes, Live       int64 // on disk; of the live jobs
	Batches, Records  uint64
	Migrated, Commits uint64
	Pending, Promised int64 // bytes in Logs, about; of bodies that were let in
	Room              int64 // of Storage.Room, where somebody has asked for that; else 0

	Written uint64       // bytes, since the start
	Sizes   stats.Counts // of commits since the start that had records: how many those were
	Syncs   stats.Counts // of commits to the disk since the start: how long they took
}

package commit

import "polystalk/shard/record"

// A Sink is where commits go: segment files, or a log that several servers keep. Only
// who makes a commit calls it, so never two goroutines at a time, but now one and now
// another: the committer's own, or an event loop in CommitHere. No shard is owned then,
// and no Log is open, so a Sink may wait as long as it has to.
//
// An error of either method ends the storage, unless it is ErrStopped, for the cause Disk
// unless it is a Failure: nothing is tried again, and neither the commit under way nor a later one is acknowledged. A Sink need not
// undo anything, since what it took may then be lost or kept: nobody was told.
type Sink interface {
	// Write takes what one Log has for commit e.Commit. There is one call for each Log
	// that has something, none for the others, and for some the Entry is empty. The order
	// between the records of one Log is to be kept, from call to call and from commit to
	// commit; that of different Logs is free. What e refers to is the caller's again when
	// Write returns, but for the pieces in e.Refs, which never change.
	Write(e *Entry) error

	// Sync ends commit n. Numbers come one after the other; there may be commits without
	// any Entry. safe says that all that Write took so far is as safe as the policy of the
	// Sink asks for, so that n may be acknowledged. A Sink for which that takes others need
	// not wait for them, and with it all later commits: it returns false, and calls
	// Committer.Committed when it is so. How many may be under way meanwhile is for the Sink
	// to say, by waiting in Write or Sync.
	Sync(n uint64) (safe bool, err error)
}

// An Entry is what one Log gives to one commit.
type Entry struct {
	Commit uint64
	// Data holds whole records without the bodies in Refs, as in record.Buffer.
	Data []byte
	Refs []record.Ref
	// Counted is how many of their bytes Options.Appended was told of.
	Counted int64
	Grown   Growth
}

package wal

import (
	"errors"

	"polystalk/shard/record"
	"polystalk/shard/wal/space"
)

// A Proposer has several servers agree on an order of entries, and keep them. Who makes a commit
// calls it, so never two goroutines at a time.
type Proposer interface {
	// Propose has an entry of commit n follow on all that were proposed. data is the
	// Proposer's from then on. It may wait, so that the next entry grows meanwhile. An error
	// ends the journal: a *commit.Failure says why.
	Propose(data []byte, n uint64) error
	// End says that commit n has no more entries, or none at all. Journal.Committed is called
	// once all entries up to it are committed, by then or from within.
	End(n uint64) error
	// Wanted reports whether the commit under way is to have an entry though there may be no
	// record for one.
	Wanted() bool
}

const (
	// EntryMax is how many bytes of records an entry has at most that Propose is given. With
	// its heads it goes into any segment.
	EntryMax = SegmentMin - headerSize - batchHead - record.EntrySize
	// entryRoom is what the stager has for one, with the head of a batch.
	entryRoom = (SegmentMin - headerSize - record.EntrySize) &^ (align - 1)
)

// A proposing is the sequencer of a journal that is one of several: what it is given comes back
// in an order that is everybody's, with all that others have proposed (see Entries.Append). So
// the room of a batch depends on no segment.
type proposing struct {
	to     Proposer
	ledger *space.Ledger
}

var _ sequencer = (*proposing)(nil)

// room implements sequencer.
func (p *proposing) room() int64 { return entryRoom }

// rotate implements sequencer: more room than in any entry there is nowhere.
func (p *proposing) rotate() error { return errEntrySize }

var errEntrySize = errors.New("a record is too large for an entry")

// batchWanted implements sequencer.
func (p *proposing) batchWanted() bool { return p.to.Wanted() }

// write implements sequencer.
func (p *proposing) write(b []byte, _, n uint64) (free []byte, err error) {
	p.ledger.Send(int64(padded(len(b) + record.EntrySize)))
	return nil, p.to.Propose(b[batchHead:], n)
}

// end implements sequencer.
func (p *proposing) end(n uint64) (safe bool, err error) {
	p.ledger.Written()
	return false, p.to.End(n)
}

// Committed says that all entries of commit n, and of those before, are committed and applied.
// The Proposer's owner calls it, for each commit or for the last of several. The error is what
// has ended the journal.
func (j *Journal) Committed(n uint64) error {
	if n <= j.committer.Acked() {
		return j.committer.Err()
	}
	if err := j.committer.Committed(n); err != nil {
		return err
	}
	j.watermark.reach(n)
	j.keeper.wake()
	return nil
}

// leadEntries has the log go on with what this server commits. The first entry says so: bodies
// that are in part there never become whole, and what no record tells of any more is known.
func (j *Journal) leadEntries() {
	e := j.entries
	k := max(e.Last(), j.committer.Begun())
	j.committer.Resume(k)
	j.watermark.resume(k)
	j.stager.stageEpoch(&record.Reign{Node: j.opts.Node, Time: j.opts.Now().UnixNano(), Format: record.Format}, e.First())
	e.leading.Store(true)
	j.committer.Request()
}

// Room implements commit.Storage: what is left of segments, and what the disk has for more of
// them, unless one was tried and there was no space for it, whatever the disk says
// that it has.
func (j *Journal) Room() int64 {
	sums := j.ledger.Sums()
	if j.ledger.Full() {
		return sums.Free
	}
	size, free := j.opts.SegmentSize, min(j.disk.Free(), 1<<60)
	return sums.Free + max(0, (free-size/16)/size*size)
}

// FullWith reports whether changes would be refused where so many bytes can still be written of the
// same journal: at another server, that is, by what it says of its Room.
func (j *Journal) FullWith(room int64) bool { return j.ledger.FullWith(room) }

// FullHere reports whether changes are refused since this server's own disk is full, whatever
// others have. It asks no disk: a segment was tried, and there was no space for it.
func (j *Journal) FullHere() bool { return j.ledger.FullHere() }

// SetRoomElsewhere tells a leader, now and then, how many bytes enough of the others had room for,
// at some moment since it was called the last time but one, so that
// their disks are full before nobody can write what frees them: then changes are refused here
// as if this disk was full, and deletes go on. math.MaxInt64: that is no limit. It reports
// whether they are refused for that.
func (j *Journal) SetRoomElsewhere(n int64) (full bool) {
	before := j.ledger.FullElsewhere()
	j.ledger.SetElsewhere(n)
	j.gate.updatePressure()
	if full = j.ledger.FullElsewhere(); before != full {
		j.gate.notify() // who waits is refused, or let in
		j.keeper.wake()
	}
	return full
}

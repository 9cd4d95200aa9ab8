package commit

import (
	"errors"

	"polystalk/shard/record"
	"polystalk/shard/wal"
	"polystalk/shard/wal/space"
)

// A Proposer replicates entries: several servers agree on one order of entries and store them
// (package cluster). Only the goroutine that makes a commit calls it, so calls never overlap.
type Proposer interface {
	// Propose proposes an entry of commit n, after all entries proposed before. The
	// Proposer owns data from then on. Propose may block, so that the next entry grows
	// meanwhile. An error ends the storage; a *Failure says why.
	Propose(data []byte, n uint64) error
	// End is called after the last entry of commit n, which may have none. Once all entries up to n
	// are committed, the Proposer calls Journal.Committed, perhaps from within End.
	End(n uint64) error
	// Wanted reports whether the current commit needs an entry even without a record.
	Wanted() bool
}

// replicated is the sequencer of one server of several. The entries that it proposes come back
// in an order that all servers share, with the entries of others; wal.Entries stores them. So
// the room of a batch does not depend on a segment, and a batch is the same on all servers.
type replicated struct {
	to     Proposer
	ledger *space.Ledger
}

// Room implements sequencer.
func (p *replicated) Room() int64 { return wal.EntryRoom }

// Rotate implements sequencer. It fails: every record fits into an entry.
func (p *replicated) Rotate() error { return errEntrySize }

var errEntrySize = errors.New("a record is too large for an entry")

// BatchWanted implements sequencer.
func (p *replicated) BatchWanted() bool { return p.to.Wanted() }

// Write implements sequencer.
func (p *replicated) Write(b []byte, _, n uint64) (free []byte, err error) {
	p.ledger.Send(int64(wal.Padded(len(b) + record.EntrySize)))
	return nil, p.to.Propose(b[wal.BatchHead:], n)
}

// End implements sequencer.
func (p *replicated) End(n uint64) (safe bool, err error) {
	p.ledger.Written()
	return false, p.to.End(n)
}

// Committed acknowledges commit n and all before it: their entries are committed and applied.
// The owner of the Proposer calls it for each commit, or for the last of several. It returns the
// error that has ended the storage, or nil.
func (j *Journal) Committed(n uint64) error {
	if n <= j.Acked() {
		return j.Err()
	}
	if err := j.committer.Committed(n); err != nil {
		return err
	}
	j.Reached(n)
	return nil
}

// leadEntries continues the log with the commits of this server. The first entry is an Epoch,
// which says that incomplete bodies stay incomplete, and a Floor with the current Globals.
func (j *Journal) leadEntries() {
	e := j.Entries()
	k := max(e.Last(), j.Begun())
	j.committer.resume(k)
	e.Lead(k)
	j.stager.stageEpoch(&record.Epoch{Node: j.opts.Node, Time: j.opts.Now().UnixNano(), Format: record.Format}, e.First())
	j.request()
}

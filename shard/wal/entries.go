package wal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"polystalk/shard/record"
	"polystalk/shard/wal/space"
)

// Errors of reading an entry that the log does not have.
var (
	ErrCompacted   = errors.New("the entry was given up: it is older than all that lives")
	ErrUnavailable = errors.New("the log ends before the entry")
)

// An Entry is one of the log that several servers keep. Its Data never changes.
type Entry struct {
	Index, Term uint64
	Kind        record.EntryKind
	Data        []byte // records, of a Normal one; else the message of a change of members
}

// Entries is a journal as the log of one server of several. Each entry is a batch, and nothing
// is ever cut off: an entry replaces every earlier one with its index or a higher one.
//
//	leader      Logs ─► committer ─► Proposer ─► consensus ─► Append, Sync: here, and elsewhere
//	            Journal.Committed ◄──────────────────┘
//	follower    consensus ─► Append, Sync;  committed entries go to the replays, a Floor to GiveUp
//
// Recover applies what the files prove to be committed. The rest waits, as part of the log, for
// a leader. Package cluster decides which server leads.
//
// One goroutine calls Append and Sync, and one calls GiveUp; any may call the others. All must
// wait until Open has returned.
type Entries struct {
	*parts
	learned atomic.Bool // the ledger knows about what lives, though it does not lead yet
	leading atomic.Bool // the records are this server's, under the numbers of its commits

	// These are set before it is used.
	committed uint64
	changes   []Entry

	writing sync.Mutex // held to append, to sync or to close
	closed  bool
	buf     []byte // for what is appended

	mu     sync.Mutex
	index  entryIndex
	recent recent
	synced uint64 // the last entry that is durable here
	floors floors
}

const (
	// EntryMax is the most bytes of records of an entry. With its heads it fits into any
	// segment.
	EntryMax = SegmentMin - headerSize - BatchHead - record.EntrySize
	// EntryRoom is the same with the head of a batch, for a batch that becomes an entry.
	EntryRoom = (SegmentMin - headerSize - record.EntrySize) &^ (align - 1)
)

// Lead has the log go on with what this server commits, behind commit n.
func (e *Entries) Lead(n uint64) {
	e.watermark.resume(n)
	e.leading.Store(true)
}

// floors are the known Floors. What lies below a Floor is given up once the Floor is committed,
// and durable here with all copies before it.
type floors struct {
	committed uint64 // the highest committed Floor
	last      uint64 // the highest Floor in the log
	at        uint64 // the entry that has it; zero: none
}

// resumeLog hands the recovered entries to the Entries.
func (r *recovery) resumeLog() error {
	h, e := &r.history, r.j.entries
	if e == nil {
		if h.headed {
			r.out.Headed = &Position{r.expect - 1, h.last, h.term}
		}
		return nil
	}
	if h.first != e.index.First() || h.last != e.index.Last() {
		return fmt.Errorf("entries %d to %d were read, and %d to %d are known", h.first, h.last, e.index.First(), e.index.Last())
	}
	e.committed, e.changes = min(h.commit, h.last), h.changes
	e.synced = h.last
	e.floors = floors{committed: h.settled, last: h.settled, at: h.settledAt}
	return nil
}

// First returns the lowest index of an entry; zero: the log is empty. All entries up to Last are
// there.
func (e *Entries) First() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.index.First()
}

// Last returns the index of the last entry; zero: the log is empty.
func (e *Entries) Last() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.index.Last()
}

// Term returns the term of an entry. It is zero before the first entry of all. The error is
// ErrCompacted or ErrUnavailable.
func (e *Entries) Term(i uint64) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if term, ok := e.index.Term(i); ok {
		return term, nil
	}
	switch {
	case i > e.index.Last():
		return 0, ErrUnavailable
	case i == 0 && e.index.First() <= 1:
		return 0, nil
	}
	return 0, ErrCompacted
}

// Committed returns the last entry that Recover has applied. It never changes.
func (e *Entries) Committed() uint64 { return e.committed }

// Changes returns the changes of members that Recover has met in entries behind after, up to
// Committed. They are not applied again.
func (e *Entries) Changes(after uint64) []Entry {
	for i := range e.changes {
		if e.changes[i].Index > after {
			return e.changes[i:]
		}
	}
	return nil
}

// Append adds entries with indexes in a row, behind the last one or in the place of earlier ones.
// Entries up to commit are committed. They are not durable before Sync. While the disk is full
// Append waits; in a Manual journal it fails, and the entries up to Last were added. Any other
// error has ended the journal.
func (e *Entries) Append(list []Entry, commit uint64) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	for i := range list {
		if err := e.append(&list[i], commit); err != nil {
			return e.failed(err)
		}
	}
	return nil
}

// failed ends the journal, unless an error may pass.
func (e *Entries) failed(err error) error {
	if !errors.Is(err, ErrStopped) && (!e.opts.Manual || !errors.Is(err, errNoSpace)) {
		e.committer.Fail(err)
	}
	return err
}

// IsFull reports whether Append has failed because the disk is full, in a Manual journal. Append
// may be called again with the same entries.
func IsFull(err error) bool { return errors.Is(err, errNoSpace) }

// err returns why nothing is appended any more, or nil.
func (e *Entries) err() error {
	if e.closed {
		return ErrStopped
	}
	return e.committer.Err()
}

// close ends appending.
func (e *Entries) close() {
	e.writing.Lock()
	e.closed = true
	e.writing.Unlock()
}

// append adds one entry.
func (e *Entries) append(x *Entry, committed uint64) error {
	if err := e.err(); err != nil {
		return err
	}
	head := record.Entry{Index: x.Index, Term: x.Term, Commit: committed, Kind: x.Kind}
	if x.Kind != record.Normal {
		head.Change = x.Data
	}
	b := head.Append(append(e.buf[:0], make([]byte, BatchHead)...))
	if x.Kind == record.Normal {
		b = append(b, x.Data...)
	}
	if err := e.makeRoom(int64(Padded(len(b)))); err != nil {
		return err
	}
	cur := e.segments.cur
	at := place{Segment: cur.number, Offset: cur.at}
	out, err := e.writer.put(b, e.writer.written.Load()+1)
	if err != nil {
		return err
	}
	e.buf = out
	e.account(cur, x, int64(len(out)))
	e.note(x, at, int64(len(out)))
	return nil
}

// makeRoom goes on to another segment if n bytes do not fit into this one. A prepared segment may
// be smaller than Options.SegmentSize: it was prepared before a restart.
func (e *Entries) makeRoom(n int64) error {
	if n > e.opts.SegmentSize-headerSize {
		return fmt.Errorf("an entry of %d bytes is too large for segments of %d bytes: all servers need segments (-s) as large as the others have", n, e.opts.SegmentSize)
	}
	for e.segments.cur.room() < n {
		if err := e.writer.Rotate(); err != nil {
			return err
		}
	}
	return nil
}

// account tells the Ledger what was written.
func (e *Entries) account(cur *segment, x *Entry, size int64) {
	number := x.Index
	if e.leading.Load() {
		// The leader knows its records under the numbers of its commits, which are behind all
		// indexes that there were before.
		number = max(number, e.committer.Begun()+1)
	}
	cur.lastCommit = max(cur.lastCommit, number)
	if !e.leading.Load() || x.Kind != record.Normal {
		e.ledger.AddFree(-size)
		return
	}
	e.ledger.Land(size)
	if e.committer.Pressure() != space.Open {
		e.wakeKeeper.wake() // others may have acknowledged it before: less is pending only now
	}
}

// note tells the index and the cache of an entry.
func (e *Entries) note(x *Entry, at place, size int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.index.Append(x.Index, x.Term, at, size)
	e.recent.add(x)
	e.synced = min(e.synced, x.Index-1)
	if x.Index <= e.floors.at {
		e.floors.last, e.floors.at = 0, 0 // it was replaced
	}
	if x.Kind != record.Normal {
		return
	}
	if f, ok := floorOf(x.Data); ok && f.Index >= e.floors.last {
		e.floors.last, e.floors.at = f.Index, x.Index
	}
}

// Sync makes durable what was appended. An error has ended the journal.
func (e *Entries) Sync() error {
	e.writing.Lock()
	defer e.writing.Unlock()
	if err := e.err(); err != nil {
		return err
	}
	last := e.Last()
	if err := e.writer.sync(); err != nil {
		return err
	}
	e.mu.Lock()
	found := e.floors.at > e.synced
	e.synced = last
	e.mu.Unlock()
	if found {
		e.wakeKeeper.wake()
	}
	return nil
}

// GiveUp gives up what is below a committed Floor of another server, once all entries before the
// Floor are applied. A leader needs no call.
//
// It also counts what lives by now, so that this server's own directory keeps its bound.
func (e *Entries) GiveUp(f *record.Floor) {
	e.committer.Learn(f)
	e.learned.Store(true)
	e.giveUp(f.Index)
}

// giveUp has the keeper give up what is below a committed Floor.
func (e *Entries) giveUp(floor uint64) {
	e.mu.Lock()
	e.floors.committed = max(e.floors.committed, floor)
	e.mu.Unlock()
	e.wakeKeeper.wake()
}

// needed is the first segment that is needed, as far as that is certain: all entries that count
// are in it and later ones, or below a Floor.
func (e *Entries) needed() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := &e.floors
	floor := min(f.committed, f.last)
	switch {
	case f.at > e.synced:
		return 0 // the files without it say that what it gives up is missing
	case e.index.empty() || floor < e.index.First():
		return 0 // a recovery takes files that are missing before the first entry for damage without a Floor
	case floor > e.index.Last():
		floor = e.index.Last()
	}
	return e.index.find(floor).Segment
}

// drop forgets what is in segments before one.
func (e *Entries) drop(segment uint64) {
	e.mu.Lock()
	e.index.Drop(segment)
	e.recent.drop(e.index.First())
	e.mu.Unlock()
}

// firstIn is the first entry in the segments from one on.
func (e *Entries) firstIn(segment uint64) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.index.firstIn(segment)
}

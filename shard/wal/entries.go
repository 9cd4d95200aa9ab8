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
	ErrCompacted   = errors.New("the entry was removed: its segment is no longer needed")
	ErrUnavailable = errors.New("the log ends before the entry")
)

// An Entry is an entry of the replicated log. Its Data never changes.
type Entry struct {
	Index, Term uint64
	Kind        record.EntryKind
	Data        []byte // records of a Normal entry; else the message of a membership change
}

// Entries is a journal as the log of one server of several. Each entry is a batch. The log is
// never truncated: an entry replaces every earlier one with its index or a higher one.
//
//	leader      Logs ─► committer ─► Proposer ─► consensus ─► Append, Sync: here, and elsewhere
//	            Journal.Committed ◄──────────────────┘
//	follower    consensus ─► Append, Sync;  committed entries go to the replays, a Floor to GiveUp
//
// Recover applies the entries that the files prove to be committed. The rest of the log waits for
// a leader. Package cluster decides which server leads.
//
// One goroutine calls Append and Sync, and one calls GiveUp; any goroutine may call the other
// methods. None may be called before Open has returned.
type Entries struct {
	*parts
	learned atomic.Bool // the ledger counts live jobs, although this server does not lead yet
	leading atomic.Bool // this server leads: Normal entries come from its commits

	// These are set before Open.
	committed uint64
	changes   []Entry

	writing sync.Mutex // held by append, sync and close
	closed  bool
	buf     []byte // for appended entries

	mu     sync.Mutex
	index  entryIndex
	recent recent
	synced uint64 // the last entry that is durable on this server
	floors floors
}

const (
	// EntryMax is the maximum size of an entry's records, in bytes. With its heads the entry
	// fits into any segment.
	EntryMax = SegmentMin - headerSize - BatchHead - record.EntrySize
	// EntryRoom is the maximum size of a batch that becomes an entry, with the batch's head.
	EntryRoom = (SegmentMin - headerSize - record.EntrySize) &^ (align - 1)
)

// Lead continues the log with the commits of this server, after commit n.
func (e *Entries) Lead(n uint64) {
	e.watermark.resume(n)
	e.leading.Store(true)
}

// floors are the known Floors. Segments below a Floor are given up once the Floor is committed,
// and durable on this server with all copies before it.
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
		return fmt.Errorf("entries %d to %d were read, but the index has %d to %d", h.first, h.last, e.index.First(), e.index.Last())
	}
	e.committed, e.changes = min(h.commit, h.last), h.changes
	e.synced = h.last
	e.floors = floors{committed: h.settled, last: h.settled, at: h.settledAt}
	return nil
}

// First returns the lowest index of an entry; zero: the log is empty. The log has all entries up
// to Last.
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

// Changes returns the membership changes in the entries after the given index, up to Committed,
// that Recover has found. The log does not deliver them again.
func (e *Entries) Changes(after uint64) []Entry {
	for i := range e.changes {
		if e.changes[i].Index > after {
			return e.changes[i:]
		}
	}
	return nil
}

// Append adds entries with successive indexes, which follow the last one or replace earlier ones.
// Entries up to commit are committed. The added entries are durable only after Sync. While the
// disk is full Append waits; in a Manual journal it fails, and the entries up to Last were added.
// Any other error has ended the journal.
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

// failed ends the journal, unless the error is temporary.
func (e *Entries) failed(err error) error {
	if !errors.Is(err, ErrStopped) && (!e.opts.Manual || !errors.Is(err, errNoSpace)) {
		e.committer.Fail(err)
	}
	return err
}

// IsFull reports whether Append has failed because the disk is full, in a Manual journal. Append
// may be called again with the same entries.
func IsFull(err error) bool { return errors.Is(err, errNoSpace) }

// err returns the error that has ended appending, or nil.
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

// makeRoom changes to the next segment if n bytes do not fit into this one. A segment that was
// prepared before a restart may be smaller than Options.SegmentSize, hence the loop.
func (e *Entries) makeRoom(n int64) error {
	if n > e.opts.SegmentSize-headerSize {
		return fmt.Errorf("an entry of %d bytes is too large for segments of %d bytes: all servers need the same segment size (-s)", n, e.opts.SegmentSize)
	}
	for e.segments.cur.room() < n {
		if err := e.writer.Rotate(); err != nil {
			return err
		}
	}
	return nil
}

// account tells the Ledger of a written entry.
func (e *Entries) account(cur *segment, x *Entry, size int64) {
	number := x.Index
	if e.leading.Load() {
		// The leader's jobs have the numbers of its commits, which are above all earlier indexes.
		number = max(number, e.committer.Begun()+1)
	}
	cur.lastCommit = max(cur.lastCommit, number)
	if !e.leading.Load() || x.Kind != record.Normal {
		e.ledger.AddFree(-size)
		return
	}
	e.ledger.Land(size)
	if e.committer.Pressure() != space.Open {
		e.wakeKeeper.wake() // less is pending now; other servers may have acknowledged the entry earlier
	}
}

// note adds an entry to the index, the cache and the known Floors.
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

// Sync makes all appended entries durable. An error has ended the journal.
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

// GiveUp gives up segments below a committed Floor of another server. All entries before the
// Floor must be applied. A leader need not call it.
//
// It also counts the live jobs, so that this server's directory keeps its bound.
func (e *Entries) GiveUp(f *record.Floor) {
	e.committer.Learn(f)
	e.learned.Store(true)
	e.giveUp(f.Index)
}

// giveUp makes the keeper give up segments below a committed Floor.
func (e *Entries) giveUp(floor uint64) {
	e.mu.Lock()
	e.floors.committed = max(e.floors.committed, floor)
	e.mu.Unlock()
	e.wakeKeeper.wake()
}

// needed returns the first segment that may be needed. All entries in earlier segments are below
// a committed Floor, or replaced.
func (e *Entries) needed() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := &e.floors
	floor := min(f.committed, f.last)
	switch {
	case f.at > e.synced:
		return 0 // the Floor is not durable: after a crash the removed files would look like damage
	case e.index.empty() || floor < e.index.First():
		return 0 // without a Floor in the files, a recovery takes missing files for damage
	case floor > e.index.Last():
		floor = e.index.Last()
	}
	return e.index.find(floor).Segment
}

// drop forgets the entries in segments before the given one.
func (e *Entries) drop(segment uint64) {
	e.mu.Lock()
	e.index.Drop(segment)
	e.recent.drop(e.index.First())
	e.mu.Unlock()
}

// firstIn returns the first entry from a segment on.
func (e *Entries) firstIn(segment uint64) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.index.firstIn(segment)
}

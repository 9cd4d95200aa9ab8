package wal

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"polystalk/shard/record"
	"polystalk/shard/stats"
	"polystalk/shard/wal/space"
)

// SyncPolicy determines when a written batch is made durable.
type SyncPolicy uint8

// The policies.
const (
	// SyncAlways syncs before a commit is acknowledged.
	SyncAlways SyncPolicy = iota
	// SyncEvery acknowledges written batches, and syncs them within Options.Every.
	SyncEvery
	// SyncNever acknowledges written batches, and leaves syncing to the kernel. Only the copies
	// of a compaction are synced, before the old segment is given up.
	SyncNever
)

// Options configures a WAL.
type Options struct {
	Disk        Disk
	SegmentSize int64 // bytes; at least SegmentMin
	Sync        SyncPolicy
	Every       time.Duration
	First       uint64           // number of the first batch of a new journal that continues another one; zero: 1
	Now         func() time.Time // the time that batches record
	Logger      *slog.Logger     // for the operator; nil: nothing is logged

	// Copy makes a shard record jobs again that were not recorded in full since commit after.
	// CopyOther does the same for what a Pause or Policies record describes. The keeper calls both.
	Copy      func(slot uint16, ids []uint64, after uint64)
	CopyOther func(r *record.Record)
	// Lives reports whether Copy would record a job again; nil: always true. The keeper calls it
	// for large jobs.
	Lives func(slot uint16, id, after uint64) bool

	// Manual runs no goroutines: the owner calls Commit and Tend. For tests and tools.
	Manual bool
	// Replicated makes the journal the log of one server of several; see Entries. Its policy
	// is SyncAlways.
	Replicated bool
}

// A committer makes the commits that a WAL stores. Package commit implements it.
type committer interface {
	// Begun returns the number of the last commit that has begun. A record that is
	// appended to a Log now belongs to that commit or the next.
	Begun() uint64
	// Requested reports whether a requested commit has not begun. Wake starts a commit soon.
	Requested() bool
	Wake()
	// Commit makes a commit. Only the owner of a Manual WAL needs it.
	Commit() error
	// Err returns the error that has ended the storage, or nil. Fail ends it.
	Err() error
	Fail(err error)
	// Pressure says whether changes are accepted. UpdatePressure sets it from the Ledger.
	Pressure() space.Pressure
	UpdatePressure()
	// Notify wakes the sessions that wait for space.
	Notify()
	// ProposeFloor adds a Floor at index to the next commit.
	ProposeFloor(index uint64)
	// Learn applies a Floor of another server, and updates the sums of live jobs.
	Learn(f *record.Floor)
}

// A WAL is the write-ahead log in one directory. Recover, Open and Lead come first, in this order.
type WAL struct {
	*parts
	keeper  *keeper // prepares segments and gives up old ones (compaction)
	running sync.WaitGroup
}

// parts has the parts of a WAL, which share it. It does not change after New.
type parts struct {
	opts      Options
	disk      Disk
	committer committer
	ledger    *space.Ledger // counts the space
	segments  *segments     // the lists of files, shared by writer and keeper
	watermark *watermark    // the commit up to which no crash undoes anything
	writer    *writer       // writes batches to segments and syncs them
	preparer  *preparer     // makes and removes the files of spare segments
	report    *report       // tells the operator about the disk's space
	entries   *Entries      // reads and writes the entries of a replicated log; nil: the server is alone

	wakeKeeper waker
	quit       chan struct{} // closed to end all goroutines
}

// New returns a WAL on a disk, for commits of c. Call Recover next.
func New(o Options, c committer) *WAL {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.SegmentSize = max(o.SegmentSize, SegmentMin)
	if o.Replicated {
		o.Sync = SyncAlways
	}
	p := &parts{
		opts: o, disk: o.Disk, committer: c, ledger: space.New(o.SegmentSize),
		wakeKeeper: newWaker(), quit: make(chan struct{}),
	}
	p.segments = newSegments(o.SegmentSize, p.ledger)
	p.watermark, p.preparer, p.report = &watermark{parts: p}, &preparer{parts: p}, &report{parts: p}
	p.writer = &writer{parts: p, dirty: newWaker()}
	if o.Replicated {
		p.entries = &Entries{parts: p}
	}
	return &WAL{parts: p, keeper: &keeper{parts: p}}
}

// Writer returns the writer of the current segment.
func (j *WAL) Writer() *writer { return j.writer }

// Entries returns the journal as a replicated log, or nil.
func (j *WAL) Entries() *Entries { return j.entries }

// Ledger returns the sums of the space.
func (j *WAL) Ledger() *space.Ledger { return j.ledger }

// WakeKeeper makes the keeper check for work.
func (j *WAL) WakeKeeper() { j.wakeKeeper.wake() }

// WakeIfTight makes the keeper prepare a segment before clients must wait for one.
func (j *WAL) WakeIfTight() {
	if !j.ledger.Full() && j.segments.anotherWanted() {
		j.wakeKeeper.wake()
	}
}

// Interrupt ends all waiting, after the storage has failed.
func (j *WAL) Interrupt() { j.segments.broadcast() }

// Tend does the keeper's work, in a Manual WAL.
func (j *WAL) Tend() error {
	j.wakeKeeper.clear()
	return j.keeper.tend()
}

// Untended reports whether the keeper was woken since the last Tend.
func (j *WAL) Untended() bool { return len(j.wakeKeeper) > 0 }

// Durable waits until everything that is in the Logs now is on disk, under any policy. In a
// replicated log it must be committed.
func (j *WAL) Durable() error { return j.watermark.await(nil) }

// Reached notes that commit n, and all before it, is committed and applied on a majority.
func (j *WAL) Reached(n uint64) {
	j.watermark.reach(n)
	j.wakeKeeper.wake()
}

// Open makes a segment for new batches, and prepares others in advance. Until Lead, another
// server may decide what is written and what is given up.
func (j *WAL) Open() error {
	if err := j.begin(); err != nil {
		return err
	}
	j.warnOfCopyOnWrite()
	if !j.opts.Manual {
		j.running.Go(j.keeper.run)
		j.wakeKeeper.wake()
	}
	return nil
}

// AtBeginning reports whether the current segment has no batch.
func (j *WAL) AtBeginning() bool { return j.segments.cur.at == headerSize }

// Lead begins to give up old segments. The cores must have been replayed.
func (j *WAL) Lead() error {
	if err := j.keeper.lead(); err != nil || j.opts.Manual {
		return err
	}
	if j.opts.Sync == SyncEvery {
		j.running.Go(func() { j.writer.syncEvery(j.opts.Every, j.quit) })
	}
	j.wakeKeeper.wake()
	return nil
}

// resume continues the journal after a last batch and a last commit, which are durable.
func (j *WAL) resume(batch, commit uint64) {
	j.writer.resume(batch)
	j.watermark.resume(commit)
}

// begin makes the first segment of a new journal.
func (j *WAL) begin() error {
	s := j.segments
	if s.cur != nil {
		return nil
	}
	if (s.id == identity{}) {
		rand.Read(s.id[:]) // never fails
	}
	if j.opts.First > 1 {
		s.first = j.opts.First
		j.resume(s.first-1, s.first-1)
	}
	first, err := j.preparer.prepare(s.nextNumber())
	s.first = 0
	if err == nil {
		first.file, err = j.disk.Open(SegmentName(first.number))
	}
	if err != nil {
		return fmt.Errorf("preparing the first segment: %w", err)
	}
	j.ledger.AddFree(first.room())
	s.begin(first)
	return nil
}

// warnOfCopyOnWrite warns of a file system on which writes to a filled segment may fail.
func (j *WAL) warnOfCopyOnWrite() {
	if f, ok := j.segments.cur.file.(copyOnWriter); ok {
		if name := f.CopyOnWrite(); name != "" {
			j.opts.Logger.Warn("this file system cannot reserve space for accepted jobs: a full disk may end the server, instead of the reply OUT_OF_MEMORY; keep some space free, or use a directory on ext4 or xfs", "file system", name)
		}
	}
}

// Stop ends the goroutines. From then on a goroutine that needs a segment prepares it.
func (j *WAL) Stop() {
	s := j.segments
	if !j.opts.Manual {
		s.mu.Lock()
		s.stopping = true
		s.changed.Broadcast()
		s.mu.Unlock()
		close(j.quit)
		j.running.Wait()
	}
	s.mu.Lock()
	s.alone = true
	s.mu.Unlock()
	if j.entries != nil {
		j.entries.close()
	}
}

// Close closes the files; call it after Stop. It syncs first if sync is set, unless the policy is
// SyncNever.
func (j *WAL) Close(sync bool) (err error) {
	if sync && j.opts.Sync != SyncNever {
		err = j.writer.sync()
	}
	j.segments.close()
	return err
}

// Stats are statistics of the files.
type Stats struct {
	Oldest, Current   uint64 // numbers of segments
	Segments          int
	Bytes, Live       int64 // size of the files; size of a copy of each live job
	Batches, Migrated uint64
	Pending, Promised int64        // bytes in Logs, approximately; bytes of admitted bodies
	Written           uint64       // bytes since the start
	Syncs             stats.Counts // durations of the syncs since the start
}

// Stats returns the current statistics. It does not access the disk, so event loops may call it.
func (j *WAL) Stats() Stats {
	sums := j.ledger.Sums()
	s := j.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Oldest: s.oldest, Current: s.current(), Segments: len(s.closed) + len(s.spares) + 1,
		Bytes: sums.Size, Live: sums.Live,
		Batches: j.writer.written.Load(), Migrated: j.keeper.migrated.Load(),
		Pending: sums.Pending, Promised: sums.Promised,
		Written: j.writer.figures.bytes.Load(), Syncs: j.writer.figures.syncs.Read(),
	}
}

// Segment returns the number of the segment with the records of commit n, or of the current
// segment.
func (j *WAL) Segment(n uint64) uint64 { return j.segments.holding(n) }

// Room returns how many bytes can still be written: into existing segments and, unless the last
// attempt to prepare a segment found no space, into new ones. It accesses the disk.
func (j *WAL) Room() int64 {
	sums := j.ledger.Sums()
	if j.ledger.Full() {
		return sums.Free
	}
	size, free := j.opts.SegmentSize, min(j.disk.Free(), 1<<60)
	return sums.Free + max(0, (free-size/16)/size*size)
}

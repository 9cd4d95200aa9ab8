package wal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/wal/space"
)

// SyncPolicy says when what was written is made durable.
type SyncPolicy uint8

// The policies.
const (
	// SyncAlways: before it is acknowledged.
	SyncAlways SyncPolicy = iota
	// SyncEvery: acknowledged once it is written, durable within
	// Options.Every after that.
	SyncEvery
	// SyncNever: acknowledged once it is written; the kernel's own pace. Only
	// what compaction moves is made durable, before its old place is given up.
	SyncNever
)

// Options say how a Journal is run.
type Options struct {
	Disk        Disk
	SegmentSize int64 // bytes; at least SegmentMin
	Sync        SyncPolicy
	Every       time.Duration
	Shards      int
	First       uint64           // the number of a new journal's first batch, for one that goes on where another has ended; zero: 1
	Now         func() time.Time // for what is noted in batches
	Logger      *slog.Logger     // for the operator; nil: nobody is told

	// Copy makes a shard record jobs again that have not been since commit
	// number after, CopyPause a tube's pause. They are called by the keeper.
	Copy      func(slot uint16, ids []uint64, after uint64)
	CopyPause func(slot uint16, tube []byte)
	// Lives reports whether Copy would record a job again; nil: it may. It is called
	// by the keeper, of large jobs.
	Lives func(slot uint16, id, after uint64) bool
	// Notify is called when Acked or Pressure has changed, by the journal's
	// goroutines; it must not block.
	Notify func()
	// Fail is called once, with the error that ended the journal.
	Fail func(*commit.Failure)

	// Manual leaves out the goroutines: Commit and Tend are called by the
	// owner. For tests.
	Manual bool

	// Proposer makes the journal the log of a server that is one of several, by which name
	// Node is; see Entries. Sync is SyncAlways then. Nil: the server is alone.
	Proposer Proposer
	Node     uint64
}

// A Journal is one directory's. Recover, Open and Lead come first, in this order. It wires its
// parts together, and is what others see of them:
//
//	committer  numbers commits: takes what is in the Logs and gives it to the stager
//	stager     puts records into batches, and numbers those
//	writer     puts batches into segments, and syncs them; the stager's sequencer
//	watermark  is up to which commit nothing undoes what was written
//	keeper     has segments ready before they are needed, and gives up old ones
//	preparer   makes and removes the files of spare segments, for the keeper
//	segments   are the files there are; what is shared between writer and keeper
//	ledger     is how much space there is, and whose; anyone's
//	gate       tells shards and sessions when there is none
type Journal struct {
	opts      Options
	disk      Disk
	ledger    *space.Ledger
	segments  *segments
	committer *commit.Committer
	gate      *gate
	preparer  *preparer
	stager    *stager
	writer    *writer
	watermark *watermark
	keeper    *keeper
	entries   *Entries // nil: the server is alone

	quit    chan struct{} // closed for all goroutines to end
	running sync.WaitGroup
}

var _ commit.Storage = (*Journal)(nil)

// New makes a journal on a disk; Recover comes next, then Open and Lead, or Start.
func New(o Options) *Journal {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.SegmentSize = max(o.SegmentSize, SegmentMin)
	if o.Proposer != nil {
		o.Sync = SyncAlways
	}
	j := &Journal{opts: o, disk: o.Disk, ledger: space.New(o.SegmentSize), quit: make(chan struct{})}
	j.segments = newSegments(j.disk, o.SegmentSize, j.ledger)
	wakeKeeper := newWaker()
	j.watermark = &watermark{opts: &j.opts, segments: j.segments}
	j.writer = &writer{
		opts: &j.opts, segments: j.segments, ledger: j.ledger, watermark: j.watermark,
		keeper: wakeKeeper, dirty: newWaker(),
	}
	j.stager = &stager{ledger: j.ledger, to: j.writer}
	j.committer = commit.New(commit.Options{
		Sink: j.stager, Logs: o.Shards, Step: appendStep(o.SegmentSize, o.Shards),
		Here: o.Sync != SyncAlways && !o.Manual, Prompt: j.prompt,
		Appended: j.appended, Acked: j.acked, Failed: j.failed,
	})
	j.gate = &gate{ledger: j.ledger, committer: j.committer, tell: o.Notify}
	report := &report{logger: o.Logger, committer: j.committer, ledger: j.ledger}
	j.preparer = &preparer{opts: &j.opts, disk: j.disk, segments: j.segments, ledger: j.ledger, gate: j.gate, committer: j.committer, report: report}
	j.watermark.committer = j.committer
	j.writer.committer, j.writer.preparer = j.committer, j.preparer
	j.keeper = &keeper{
		opts: &j.opts, disk: j.disk, segments: j.segments, ledger: j.ledger, gate: j.gate,
		committer: j.committer, watermark: j.watermark, preparer: j.preparer, stager: j.stager, report: report,
		waker: wakeKeeper, quit: j.quit,
	}
	if o.Proposer != nil {
		j.openEntries()
	}
	return j
}

// appendStep is how often a Log tells how much waits in it, in bytes: less often than a
// shard appends, since the sum is everybody's. What they keep to themselves is together
// little of a segment.
func appendStep(segment int64, shards int) int {
	return min(16<<10, int(segment)/16/max(shards, 1))
}

// prompt is commit.Options.Prompt. What may be in the Logs must fit into what is open: to
// wait for a segment is for the committer's goroutine only, and who asks may be the keeper.
func (j *Journal) prompt() bool {
	unknown := j.opts.SegmentSize/16 + int64(j.opts.Shards*appendStep(j.opts.SegmentSize, j.opts.Shards))
	sums := j.ledger.Sums()
	return j.segments.open() >= sums.Pending+unknown && !j.writer.syncDue()
}

// appended is commit.Options.Appended.
func (j *Journal) appended(n int64) {
	j.ledger.Append(n)
	j.gate.tightenPressure()
}

// acked is commit.Options.Acked.
func (j *Journal) acked() {
	j.gate.updatePressure()
	j.gate.notifyAcked()
	if !j.ledger.Full() && j.segments.anotherWanted() {
		j.keeper.wake() // before clients have to wait
	}
}

// failed is commit.Options.Failed.
func (j *Journal) failed(f *commit.Failure) {
	j.segments.broadcast()
	if j.opts.Fail != nil && !errors.Is(f, commit.ErrStopped) {
		j.opts.Fail(f)
	}
}

// Log is the log of shard i.
func (j *Journal) Log(i int) *commit.Log { return j.committer.Log(i) }

// Acked implements commit.Storage.
func (j *Journal) Acked() uint64 { return j.committer.Acked() }

// Pressure implements commit.Storage.
func (j *Journal) Pressure() commit.Pressure { return j.committer.Pressure() }

// Notified implements commit.Storage.
func (j *Journal) Notified() uint64 { return j.gate.notified.Load() }

// Here implements commit.Storage.
func (j *Journal) Here() bool { return j.committer.Here() }

// CommitHere implements commit.Storage.
func (j *Journal) CommitHere() { j.committer.CommitHere() }

// Begun is the number of the last commit that has begun: what is recorded from now on, or asked
// for by Wake, comes with a later one.
func (j *Journal) Begun() uint64 { return j.committer.Begun() }

// Wake has the committer's goroutine make a commit, whoever else would.
func (j *Journal) Wake() { j.committer.Wake() }

// Commit makes a commit; see commit.Committer. For who runs a journal by hand.
func (j *Journal) Commit() error { return j.committer.Commit() }

// Requested reports whether somebody has asked for a commit that has not begun; for who runs
// a journal by hand.
func (j *Journal) Requested() bool { return j.committer.Requested() }

// Tend does what the keeper has to do now; for who runs a journal by hand.
func (j *Journal) Tend() error {
	j.keeper.waker.clear()
	return j.keeper.tend()
}

// Untended reports whether somebody has wanted the keeper to look since it last did; for who
// runs a journal by hand.
func (j *Journal) Untended() bool { return len(j.keeper.waker) > 0 }

// Durable waits until everything that is in the Logs by now is committed: on disk, whatever
// the policy.
func (j *Journal) Durable() error { return j.watermark.await(nil) }

// HighID is the highest id that a job has had.
func (j *Journal) HighID() uint64 { return j.stager.highestID() }

// RaiseID keeps ids up to n from being given out again. It is called before Lead.
func (j *Journal) RaiseID(n uint64) { j.stager.globals.HighID = max(j.stager.globals.HighID, n) }

// Imported is the last of beanstalkd's files that was taken over, by number.
func (j *Journal) Imported() uint64 { return j.stager.globals.Imported }

// SetImported notes that, durably: what was taken over is in the Logs.
func (j *Journal) SetImported(n uint64) error {
	j.committer.Exclude(func() { j.stager.setImported(n, j.entries) })
	return j.Durable()
}

// Start is Open and Lead in a row, for who follows nobody meanwhile. After an error the
// journal is closed.
func (j *Journal) Start() error {
	err := j.Open()
	if err == nil {
		err = j.Lead()
	}
	if err != nil {
		j.Close() // there is nothing in it that an error could be about
	}
	return err
}

// Open has a segment to go on in, and from then on others ready before they are needed. It
// may be long until Lead: whoever leads meanwhile says what is written, and what is given up.
func (j *Journal) Open() error {
	if err := j.begin(); err != nil {
		return err
	}
	j.warnOfCopyOnWrite()
	if !j.opts.Manual {
		j.running.Go(j.keeper.run)
		j.keeper.wake()
	}
	return nil
}

// Lead begins to commit what is in the Logs, and to give up what nobody needs; the cores must
// have been replayed.
func (j *Journal) Lead() error {
	for _, l := range j.committer.Logs() {
		j.stager.grow(0, l.Grown())
	}
	switch {
	case j.entries != nil:
		j.leadEntries()
	case j.segments.cur.at == headerSize:
		j.stager.stageGlobals() // only now is the highest id known
	}
	if err := j.keeper.lead(); err != nil {
		return err
	}
	if j.opts.Manual {
		return nil
	}
	j.running.Go(func() { j.committer.Run(j.quit) })
	if j.opts.Sync == SyncEvery {
		j.running.Go(func() { j.writer.syncEvery(j.opts.Every, j.quit) })
	}
	j.keeper.wake()
	return nil
}

// resume has the journal go on behind a last batch, all up to which is durable. Numbers of
// commits go on behind those of entries, which are those of batches where a journal is one
// server's alone: up to there each stands for the entry that a record was read from, on whatever
// machine that was read.
func (j *Journal) resume(batch, entry uint64) {
	j.stager.resume(batch)
	j.writer.resume(batch)
	j.watermark.resume(entry)
	j.committer.Resume(entry)
}

// begin makes the first segment of a new journal.
func (j *Journal) begin() error {
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
		first.file, err = j.disk.Open(segmentName(first.number))
	}
	if err != nil {
		return fmt.Errorf("preparing the first segment: %w", err)
	}
	j.ledger.AddFree(first.room())
	s.begin(first)
	return nil
}

// warnOfCopyOnWrite says that a full disk cannot be foreseen, where that is so.
func (j *Journal) warnOfCopyOnWrite() {
	if f, ok := j.segments.cur.file.(copyOnWriter); ok {
		if name := f.CopyOnWrite(); name != "" {
			j.opts.Logger.Warn("on this file system no space can be kept for what was accepted: a full disk may end the server instead of being answered OUT_OF_MEMORY; keep some of it free, or give a directory on ext4 or xfs", "file system", name)
		}
	}
}

// Close commits what is left, if the journal leads, makes it durable unless the policy is
// SyncNever, and closes the files. Nobody may append any more. Of several servers one cannot
// commit: who leads waits for Durable before, if it is to hand over.
func (j *Journal) Close() error {
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
	err := j.committer.Err()
	if j.entries != nil {
		j.entries.close()
	}
	if err == nil && j.entries != nil {
		err = j.writer.sync()
	} else if err == nil && j.keeper.leading {
		err = j.commitLast()
	}
	s.close()
	return err
}

// commitLast commits what is left, and makes it durable unless the policy is SyncNever.
func (j *Journal) commitLast() error {
	if err := j.committer.Commit(); err != nil || j.opts.Sync == SyncNever {
		return err
	}
	return j.writer.sync()
}

// Stats implements commit.Storage. An event loop calls it, so it asks no disk.
func (j *Journal) Stats() commit.Stats {
	sums := j.ledger.Sums()
	s := j.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return commit.Stats{
		Oldest: s.oldest, Current: s.current(), Segments: len(s.closed) + len(s.spares) + 1,
		Bytes: sums.Size, Live: sums.Live,
		Batches: j.writer.written.Load(), Records: j.stager.records.Load(),
		Migrated: j.keeper.migrated.Load(), Commits: j.Acked(),
		Pending: sums.Pending, Promised: sums.Promised,
		Written: j.writer.figures.bytes.Load(), Sizes: j.stager.sizes.Read(), Syncs: j.writer.figures.syncs.Read(),
	}
}

// Segment implements commit.Storage.
func (j *Journal) Segment(n uint64) uint64 { return j.segments.holding(n) }

package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
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
	Now         func() time.Time // for what is noted in batches
	Log         *slog.Logger

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
	Fail func(error)

	// Manual leaves out the goroutines: Commit and Tend are called by the
	// owner. For tests.
	Manual bool
}

// A Journal is one directory's. Recover and Start come first, in this order.
type Journal struct {
	opts Options
	disk *handDisk
	id   identity
	logs []*Log
	step int // see pendingStep

	queue atomic.Pointer[Log] // logs with records, linked
	begun atomic.Uint64       // the last commit begun
	awake atomic.Bool         // the committer is awake, or will be
	wake  chan struct{}
	acked atomic.Uint64

	pending  atomic.Int64 // bytes in Logs, about
	promised atomic.Int64 // bytes to Claims
	wants    atomic.Int64 // bytes that Claims wait for
	free     atomic.Int64 // bytes in segments that are not written yet
	live     atomic.Int64 // bytes of a Copy of every job
	jobs     atomic.Int64
	pauses   atomic.Int64 // bytes of the ends of all pauses
	largest  atomic.Int64 // bytes of the largest record of a job
	pressure atomic.Int32
	tight    atomic.Bool // see record.Buffer
	full     atomic.Bool // a segment is wanted, and the last try to prepare one found no space
	asked    atomic.Bool // somebody wants to know what the disk has
	told     told        // of the keeper
	quota    quota       // of the keeper: a limit that the disk does not show
	highID   atomic.Uint64
	globals  record.Globals // its HighID is above

	// Of who makes a commit.
	committing    sync.Mutex
	batch         uint64 // the last one written
	staging       []byte // what is written next, after room for its head
	stagedGlobals int    // … of which this is not worth a write
	taken         int64  // bytes that pending still counts, of what is not written yet

	syncing sync.Mutex    // one sync at a time
	written atomic.Uint64 // last batch written
	synced  atomic.Uint64 // last batch durable

	mu       sync.Mutex
	cur      *segment   // written by the committer
	changed  *sync.Cond // durable, failed, spares or closed has changed
	closed   []*segment // oldest first
	spares   []*segment // next first
	unsynced []*segment // written and not synced, the current one last
	oldest   uint64     // the first segment that is needed
	marked   uint64     // … as the last batch says
	durable  uint64     // last commit that is on disk
	forced   uint64     // … is to be, whatever the policy
	tries    uint64     // to prepare a segment
	refused  uint64     // the last of them that found no space
	measured uint64     // how often space was measured
	space    int64      // bytes that the disk had then, besides the segments
	surplus  time.Time  // since when there are spares that nobody needs; zero: there are none
	starved  bool       // the committer waits for a spare
	failed   error
	stopping bool
	alone    bool  // the keeper is gone: the committer prepares its segments
	round    round // of compaction

	migrated, records atomic.Uint64
	notified          atomic.Uint64

	tend    chan struct{}
	dirtied chan struct{}
	quit    chan struct{}
	running sync.WaitGroup
}

// A segment is one file.
type segment struct {
	number     uint64
	file       File // nil: closed; open of the current one, those not synced and the next
	size       int64
	at         int64  // end of what is written
	lastBatch  uint64 // … of those that were recovered
	lastCommit uint64 // no record here is known under a higher number
}

// ErrStopped is the error of waiting for a journal that was closed.
var ErrStopped = errors.New("the journal is closed")

func newJournal(o Options) *Journal {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.SegmentSize = max(o.SegmentSize, SegmentMin)
	j := &Journal{
		opts: o, disk: &handDisk{Disk: o.Disk},
		wake: make(chan struct{}, 1), tend: make(chan struct{}, 1),
		dirtied: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	j.changed = sync.NewCond(&j.mu)
	j.step = min(pendingStep, int(o.SegmentSize)/16/max(o.Shards, 1))
	for range o.Shards {
		j.logs = append(j.logs, &Log{j: j})
	}
	return j
}

// Log is the log of shard i.
func (j *Journal) Log(i int) *Log { return j.logs[i] }

// Acked is the last commit whose replies may leave.
func (j *Journal) Acked() uint64 { return j.acked.Load() }

// Pressure says whether changes are taken. It may be called by anyone.
func (j *Journal) Pressure() commit.Pressure { return commit.Pressure(j.pressure.Load()) }

// HighID is the highest id that a job has had.
func (j *Journal) HighID() uint64 { return max(j.highID.Load(), j.globals.HighID) }

// Imported is the last of beanstalkd's files that was taken over, by number.
func (j *Journal) Imported() uint64 { return j.globals.Imported }

// SetImported notes that, durably: what was taken over is in the Logs.
func (j *Journal) SetImported(n uint64) error {
	j.committing.Lock()
	j.globals.Imported = n
	g := j.globals
	g.HighID = j.HighID()
	j.staging = g.Append(j.staging)
	j.committing.Unlock()
	return j.Durable()
}

// RaiseID keeps ids up to n from being given out again.
func (j *Journal) RaiseID(n uint64) { j.globals.HighID = max(j.globals.HighID, n) }

// Start begins to commit; the cores must have been replayed.
func (j *Journal) Start() error {
	for _, l := range j.logs {
		b := &l.Buffer
		j.account(b.Live, b.Jobs, b.HighID)
		j.pauses.Add(b.Pauses)
		j.largest.Store(max(j.largest.Load(), b.Largest))
		l.live, l.jobs, l.pauses = b.Live, b.Jobs, b.Pauses
	}
	j.highID.Store(max(j.highID.Load(), j.globals.HighID))
	if j.cur != nil && j.cur.at == headerSize {
		j.stageGlobals() // only now is the highest id known
	}
	if j.cur == nil {
		if j.id == (identity{}) {
			rand.Read(j.id[:]) // never fails
		}
		s, err := j.prepare(j.nextNumber())
		if err == nil {
			s.file, err = j.disk.Open(segmentName(s.number))
		}
		if err != nil {
			return fmt.Errorf("preparing the first segment: %w", err)
		}
		j.free.Add(s.room())
		j.mu.Lock()
		j.cur, j.oldest = s, s.number
		j.unsynced = append(j.unsynced, s)
		j.mu.Unlock()
		j.stageGlobals()
	}
	j.disk.hand.hold(handSize)
	j.space = j.diskSpace()
	j.press()
	for j.spareWanted() {
		if !j.addSpare() {
			break
		}
	}
	if err := j.failure(); err != nil {
		return err
	}
	if _, err := j.openNext(); err != nil {
		return err
	}
	j.warnOfCopyOnWrite()
	if j.opts.Manual {
		return nil
	}
	j.running.Add(2)
	go j.runCommitter()
	go j.runKeeper()
	if j.opts.Sync == SyncEvery {
		j.running.Add(1)
		go j.runSyncer()
	}
	j.poke()
	return nil
}

// warnOfCopyOnWrite says that a full disk cannot be foreseen, where that is so.
func (j *Journal) warnOfCopyOnWrite() {
	if f, ok := j.cur.file.(copyOnWriter); ok {
		if name := f.CopyOnWrite(); name != "" {
			j.opts.Log.Warn("on this file system no space can be kept for what was accepted: a full disk may end the server instead of being answered OUT_OF_MEMORY; keep some of it free, or give a directory on ext4 or xfs", "file system", name)
		}
	}
}

func (s *segment) room() int64 { return s.size - s.at }

// nextNumber is the number of the next segment to prepare.
func (j *Journal) nextNumber() uint64 {
	switch {
	case len(j.spares) > 0:
		return j.spares[len(j.spares)-1].number + 1
	case j.cur != nil:
		return j.cur.number + 1
	case len(j.closed) > 0:
		return j.closed[len(j.closed)-1].number + 1
	}
	return 1
}

// Close commits what is left, makes it durable unless the policy is SyncNever,
// and closes the files. Nobody may append any more.
func (j *Journal) Close() error {
	if !j.opts.Manual {
		j.mu.Lock()
		j.stopping = true
		j.changed.Broadcast()
		j.mu.Unlock()
		close(j.quit)
		j.running.Wait()
	}
	j.mu.Lock()
	j.alone = true
	j.mu.Unlock()
	err := j.failure()
	if err == nil {
		err = j.Commit()
	}
	if err == nil && j.opts.Sync != SyncNever {
		err = j.sync()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.unsynced {
		s.file.Close()
	}
	if j.nextIsOpen() {
		j.spares[0].file.Close()
	}
	j.disk.hand.hold(0)
	j.unsynced, j.spares = nil, nil
	return err
}

func (j *Journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// fail ends the journal.
func (j *Journal) fail(err error) {
	j.mu.Lock()
	first := j.failed == nil
	if first {
		j.failed = err
	}
	j.changed.Broadcast()
	j.mu.Unlock()
	j.pressure.Store(int32(commit.Wait))
	if first && j.opts.Fail != nil && !errors.Is(err, ErrStopped) {
		j.opts.Fail(err)
	}
}

// account moves the sums of what lives.
func (j *Journal) account(live, jobs int64, highID uint64) {
	j.live.Add(live)
	j.jobs.Add(jobs)
	if highID > j.highID.Load() {
		j.highID.Store(highID) // by the committer alone
	}
}

// Notified counts the calls of Notify but those that are about Acked alone. After Claim or
// Fits has said Wait it is of no use to ask again before this has moved.
func (j *Journal) Notified() uint64 { return j.notified.Load() }

// notify tells that something may be there that a Claim waits for.
func (j *Journal) notify() {
	j.notified.Add(1)
	j.tell()
}

func (j *Journal) tell() {
	if j.opts.Notify != nil {
		j.opts.Notify()
	}
}

// Stats may be called by anyone.
func (j *Journal) Stats() commit.Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := commit.Stats{
		Oldest: j.oldest, Current: j.oldest, Bytes: j.size(), Live: j.live.Load(),
		Segments: len(j.closed) + len(j.spares) + 1,
		Batches:  j.written.Load(), Records: j.records.Load(), Migrated: j.migrated.Load(), Commits: j.acked.Load(),
		Pending: j.pending.Load(), Promised: j.promised.Load(),
	}
	if n := len(j.unsynced); n > 0 {
		s.Current = j.unsynced[n-1].number
	}
	return s
}

// Segment is the number of the segment that holds what commit n wrote, or the
// current one.
func (j *Journal) Segment(n uint64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.closed {
		if n <= s.lastCommit {
			return s.number
		}
	}
	if k := len(j.unsynced); k > 0 {
		return j.unsynced[k-1].number
	}
	return j.oldest
}

var _ commit.Storage = (*Journal)(nil)

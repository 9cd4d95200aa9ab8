package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/histogram"
	"polystalk/shard/journal/space"
	"polystalk/shard/record"
)

// batchMax is the most that goes into one batch, in bytes: it is what a reader
// must have in memory, and checks, at once.
const batchMax = 1 << 20

// A writer is the journal's commit.Sink: it gathers records into batches, writes those to
// the current segment, goes on to the next when that is full, and makes durable what the
// policy says.
//
// Its methods are called by who makes a commit, but for the syncs, of which there is one
// at a time, and for those that wait for one.
type writer struct {
	opts      *Options
	segments  *segments
	ledger    *space.Ledger
	committer *commit.Committer
	preparer  *preparer // for when there is no keeper
	keeper    waker

	// These belong to who makes a commit.
	batch         uint64         // the number of the last one written
	staging       []byte         // what is written next, after room for its head
	stagedGlobals int            // so much of staging is not worth a write of its own
	globals       record.Globals // what every segment begins with; HighID as it was recovered
	highID        atomic.Uint64  // the highest id of a job that a commit has met
	records       atomic.Uint64  // how many there were
	uncounted     uint64         // of them, those of the commit that is being made
	figures       figures

	dirty   waker         // something was written that no commit has synced
	syncing sync.Mutex    // held by who syncs
	written atomic.Uint64 // the last batch written
	synced  atomic.Uint64 // the last batch durable

	// These are guarded by segments.mu, and segments.changed tells of durable.
	durable uint64 // the last commit that is on disk
	forced  uint64 // the last commit that is to be, whatever the policy
}

// figures are a writer's, for who watches it.
type figures struct {
	bytes atomic.Uint64       // of batches, as they are in segments
	sizes histogram.Histogram // of commits that had records: how many
	syncs histogram.Histogram // how long they took
}

// resume goes on behind a last batch, all of which is durable by now, as is all that is
// known under commit n. It is called before anything else.
func (w *writer) resume(batch, n uint64) {
	w.batch = batch
	w.written.Store(batch)
	w.synced.Store(batch)
	w.durable, w.forced = n, n
	w.staging = make([]byte, batchHead)
	w.stagedGlobals = batchHead
}

// grow takes in what has become of a Log's sums, with which come n bytes that it had
// counted. Only who makes a commit writes highID.
func (w *writer) grow(n int64, g commit.Growth) {
	w.ledger.Take(n, g)
	w.records.Add(g.Records)
	w.uncounted += g.Records
	if g.HighID > w.highID.Load() {
		w.highID.Store(g.HighID)
	}
}

// highestID is the highest id that a job has had.
func (w *writer) highestID() uint64 { return max(w.highID.Load(), w.globals.HighID) }

// Write implements commit.Sink: it adds records to what is written next, and writes what
// is full.
func (w *writer) Write(e *commit.Entry) error {
	w.grow(e.Counted, e.Grown)
	data, refs := e.Data, e.Refs
	if len(refs) == 0 && w.fits(len(data)) {
		w.staging = append(w.staging, data...)
		return nil
	}
	total := len(data)
	for len(data) > 0 {
		var rec, ref []byte
		rec, ref, data, refs = record.Next(data, refs, total-len(data))
		if err := w.stage(rec, ref, e.Commit); err != nil {
			return err
		}
	}
	return nil
}

// stage adds one record, with the piece of a body that goes on with it.
func (w *writer) stage(rec, ref []byte, n uint64) error {
	for !w.fits(len(rec) + len(ref)) {
		if len(w.staging) > w.stagedGlobals {
			if err := w.writeBatch(n); err != nil {
				return err
			}
			continue
		}
		if err := w.rotate(); err != nil {
			return err
		}
	}
	w.staging = append(append(w.staging, rec...), ref...)
	return nil
}

// fits reports whether n more bytes go into the batch that is being staged.
func (w *writer) fits(n int) bool {
	n += max(len(w.staging), batchHead)
	return n <= batchMax && int64(padded(n)) <= w.segments.cur.room()
}

// stageGlobals starts the first batch of a segment.
func (w *writer) stageGlobals() {
	g := w.globals
	g.HighID = w.highestID()
	w.staging = g.Append(append(w.staging[:0], make([]byte, batchHead)...))
	w.stagedGlobals = len(w.staging)
}

// setImported stages Globals that say what was taken over of beanstalkd's files.
func (w *writer) setImported(n uint64) {
	w.globals.Imported = n
	g := w.globals
	g.HighID = w.highestID()
	w.staging = g.Append(w.staging)
}

// Sync implements commit.Sink: it writes what is staged, and makes it durable if the
// policy, or someone who waits for it, says so.
func (w *writer) Sync(n uint64) (safe bool, err error) {
	forced, mark := w.wishes()
	if len(w.staging) > w.stagedGlobals || forced && mark {
		if !w.fits(0) { // not even the head of an empty one
			if err := w.rotate(); err != nil {
				return false, err
			}
		}
		if err := w.writeBatch(n); err != nil {
			return false, err
		}
	}
	w.ledger.Written()
	if w.uncounted > 0 {
		w.figures.sizes.Count(w.uncounted)
		w.uncounted = 0
	}
	if w.written.Load() != w.synced.Load() && w.opts.Sync != SyncAlways && !forced {
		w.dirty.wake()
		return true, nil
	}
	if err := w.sync(); err != nil {
		return false, err
	}
	w.segments.mu.Lock()
	w.durable = n
	w.segments.changed.Broadcast()
	w.segments.mu.Unlock()
	return true, nil
}

// wishes are what a commit is asked for besides its records. forced: somebody waits for it
// to be durable. mark: the oldest segment is not needed any more and no batch says so yet.
// Who has given that segment up waits for such a batch, so with both one is written though
// there are no records for it.
func (w *writer) wishes() (forced, mark bool) {
	s := w.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.forced > w.durable, s.oldest != s.marked
}

// writeBatch writes what is staged, as of commit n.
func (w *writer) writeBatch(n uint64) error {
	s := w.segments
	cur := s.cur
	s.mu.Lock()
	oldest := s.oldest
	s.marked = oldest
	s.mu.Unlock()
	w.batch++
	out := sealBatch(w.staging, s.id, cur.number, &batch{
		number: w.batch, time: w.opts.Now().UnixNano(), synced: w.synced.Load(), oldest: oldest,
	})
	k, err := cur.file.WriteAt(out, cur.at)
	if err != nil {
		return fmt.Errorf("writing %s: %w", segmentName(cur.number), err)
	}
	if k < len(out) {
		return fmt.Errorf("writing %s: only %d of %d bytes were taken", segmentName(cur.number), k, len(out))
	}
	cur.at += int64(k)
	if cur.at > cur.size {
		panic(fmt.Sprintf("%s is written up to %d of %d bytes", segmentName(cur.number), cur.at, cur.size))
	}
	// No record in it is known under a higher number; see commit.Log.Begin.
	cur.lastCommit = n + 1
	w.ledger.Write(int64(k))
	w.figures.bytes.Add(uint64(k))
	w.written.Store(w.batch)
	w.staging = append(out[:0], make([]byte, batchHead)...)
	w.stagedGlobals = batchHead
	return nil
}

// rotate goes on to the next segment. It waits for one if none is prepared, or cannot
// be opened for want of descriptors.
func (w *writer) rotate() error {
	s := w.segments
	for {
		ready, err := w.preparer.openNext()
		if err != nil {
			return err
		}
		if ready {
			break
		}
		if err := w.awaitSpare(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	if err := w.committer.Err(); err != nil {
		s.mu.Unlock()
		return err
	}
	old := s.advance()
	n := len(s.unsynced)
	s.mu.Unlock()
	w.ledger.AddFree(-old.room())
	w.stageGlobals()
	w.keeper.wake()
	if n > unsyncedMax || n > 2 && w.segments.disk.hand.short() {
		// Only with SyncNever, or a disk that is far behind: open files are
		// not without end either.
		return w.sync()
	}
	return nil
}

// awaitSpare waits until there may be a spare that can be opened. Without a keeper it
// prepares one.
func (w *writer) awaitSpare() error {
	s := w.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := w.committer.Err(); err != nil {
		return err
	}
	if w.opts.Manual || s.alone {
		stopping, none := s.stopping, len(s.spares) == 0
		s.mu.Unlock()
		defer s.mu.Lock()
		return w.prepareAlone(stopping, none)
	}
	if !s.starved {
		s.starved = true
		s.changed.Broadcast() // the keeper may wait for us
	}
	if !s.nextIsOpen() {
		w.keeper.wake()
		s.changed.Wait()
	}
	return nil
}

// prepareAlone prepares a spare if there is none, or says why it cannot be had.
func (w *writer) prepareAlone(stopping, none bool) error {
	w.preparer.quota.moved() // or may have: it is now or never
	switch {
	case !none:
		return fmt.Errorf("the next segment cannot be opened: %w", syscall.EMFILE)
	case w.preparer.add() == nil:
		return nil
	case stopping:
		return fmt.Errorf("%w, and %w", commit.ErrStopped, errNoSpace)
	}
	return fmt.Errorf("no segment is prepared: %w", errNoSpace)
}

// unsyncedMax segments at most are written and not synced.
const unsyncedMax = 16

// syncDue reports whether the next commit is to be made durable, whatever the policy.
func (w *writer) syncDue() bool {
	s := w.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.forced > w.durable || len(s.unsynced) >= unsyncedMax
}

// sync makes durable what is written. An error has ended the journal before
// syncing is free again: a second sync would succeed, and mean nothing.
func (w *writer) sync() error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	target := w.written.Load()
	if err := w.committer.Err(); err != nil || target == w.synced.Load() {
		return err
	}
	s := w.segments
	s.mu.Lock()
	files := append([]*segment(nil), s.unsynced...)
	s.mu.Unlock()
	begun := w.opts.Now()
	for _, f := range files {
		if err := f.file.Sync(); err != nil {
			err = fmt.Errorf("syncing %s: %w", segmentName(f.number), err)
			w.committer.Fail(err)
			return err
		}
	}
	w.figures.syncs.Took(w.opts.Now().Sub(begun))
	w.synced.Store(target)
	s.mu.Lock()
	defer s.mu.Unlock()
	// All but the last were full when target was read, or filled up since and
	// are synced as far as target goes; those go with the next sync.
	done := len(files) - 1
	for _, f := range files[:done] {
		f.file.Close()
	}
	s.unsynced = append(s.unsynced[:0], s.unsynced[done:]...)
	return nil
}

// syncEvery makes durable within a time what is written: it is a goroutine of its own.
func (w *writer) syncEvery(every time.Duration, quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-w.dirty:
		}
		// The first unsynced byte was written just now; the sync itself comes
		// on top of that time.
		select {
		case <-quit:
			return
		case <-time.After(every):
		}
		if w.sync() != nil {
			return
		}
	}
}

// awaitDurable waits until everything that is in the Logs by now is on disk, whatever the
// policy. The keeper, for whom the committer may be waiting meanwhile, says what it does
// for that, and is called without mu.
func (w *writer) awaitDurable(whenStarved func()) error {
	n := w.committer.Begun() + 1
	s := w.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	w.forced = max(w.forced, n)
	for w.durable < n && w.committer.Err() == nil {
		switch {
		case w.opts.Manual:
			s.mu.Unlock()
			err := w.committer.Commit()
			s.mu.Lock()
			if err != nil {
				return err
			}
		case s.stopping:
			return commit.ErrStopped
		case whenStarved != nil && s.starved && !s.nextIsOpen():
			s.mu.Unlock()
			whenStarved()
			s.mu.Lock()
		default:
			w.committer.Wake()
			s.changed.Wait()
		}
	}
	return w.committer.Err()
}

package journal

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"polystalk/shard/record"
)

// batchMax is the most that goes into one batch, in bytes: it is what a reader
// must have in memory, and checks, at once.
const batchMax = 1 << 20

// enqueue puts l on the list of logs to be written; l is locked.
func (j *Journal) enqueue(l *Log) {
	for {
		head := j.queue.Load()
		l.next = head
		if j.queue.CompareAndSwap(head, l) {
			return
		}
	}
}

// Wake makes the committer look; it may be called by anyone who owns no shard.
// Where nothing has to be durable it is left to who waits for the commit, in
// CommitHere, and otherwise to the keeper, before long.
func (j *Journal) Wake() {
	if !j.awake.Load() && j.awake.CompareAndSwap(false, true) && !j.Here() {
		j.rouse()
	}
}

// Rouse has the committer's goroutine commit, whoever else would.
func (j *Journal) Rouse() {
	j.awake.Store(true)
	j.rouse()
}

// rouse wakes the committer's goroutine.
func (j *Journal) rouse() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// Here reports whether commits are made by who waits for them: they are only
// written, and handing that to another thread costs more than doing it.
func (j *Journal) Here() bool { return j.opts.Sync != SyncAlways && !j.opts.Manual }

// CommitHere makes a commit if that takes one write and no waiting; else it is
// the committer's. It is called by who has replies that depend on one.
func (j *Journal) CommitHere() {
	if !j.Here() || !j.awake.Load() {
		return
	}
	if !j.committing.TryLock() {
		j.rouse()
		return
	}
	defer j.committing.Unlock()
	// What may be in the Logs must fit into what is open: to wait for a
	// segment is for the committer only, and who calls may be the keeper.
	slack := j.opts.SegmentSize/16 + int64(len(j.logs)*j.step)
	if j.open() < j.pending.Load()+slack || j.syncDue() {
		j.rouse()
		return
	}
	j.Commit() // its error has ended the journal
}

// open is how much can be written without opening a file; the committer calls it.
func (j *Journal) open() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.cur.room()
	if j.nextIsOpen() {
		n += j.spares[0].room()
	}
	return n
}

// syncDue reports whether the next commit is to be made durable, whatever the
// policy.
func (j *Journal) syncDue() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.forced > j.durable || len(j.unsynced) >= unsyncedMax
}

func (j *Journal) runCommitter() {
	defer j.running.Done()
	for {
		select {
		case <-j.quit:
			return
		case <-j.wake:
		}
		j.committing.Lock()
		err := j.Commit()
		j.committing.Unlock()
		if err != nil {
			return
		}
	}
}

// Commit writes what the logs hold, and makes it durable if the policy, or
// someone who waits for it, says so. Only who holds committing calls it. An
// error has ended the journal when it returns, so before the next can begin:
// that one would find half a batch, or a sync that succeeds and means nothing.
func (j *Journal) Commit() error {
	err := j.commit()
	if err != nil && !errors.Is(err, ErrStopped) {
		j.fail(err)
	}
	return err
}

func (j *Journal) commit() error {
	if err := j.failure(); err != nil {
		return err // perhaps another goroutine's
	}
	k := j.begun.Add(1)
	j.awake.Store(false) // who appends from here on wakes us again
	again := false
	for l := j.queue.Swap(nil); l != nil; {
		next := l.next
		data, refs, late := l.take(k)
		again = again || late
		if err := j.stage(data, refs, k); err != nil {
			return err
		}
		clear(refs)
		l.giveBack(data)
		l = next
	}
	j.mu.Lock()
	force := j.forced > j.durable
	mark := j.oldest != j.marked
	j.mu.Unlock()
	if len(j.staging) > j.stagedGlobals || force && mark {
		if !j.fits(0) { // not even the head of an empty one
			if err := j.rotate(); err != nil {
				return err
			}
		}
		if err := j.writeBatch(k); err != nil {
			return err
		}
	}
	j.settle(j.taken)
	if j.written.Load() == j.synced.Load() || j.opts.Sync == SyncAlways || force {
		if err := j.sync(); err != nil {
			return err
		}
		j.mu.Lock()
		j.durable = k
		j.changed.Broadcast()
		j.mu.Unlock()
	} else {
		select {
		case j.dirtied <- struct{}{}:
		default:
		}
	}
	j.mu.Lock()
	if err := j.failed; err != nil {
		j.mu.Unlock()
		return err // nothing is acknowledged after an error, whosever it was
	}
	j.acked.Store(k)
	j.mu.Unlock()
	j.press()
	j.tell()
	if !j.full.Load() && j.spareWanted() {
		j.poke() // before clients have to wait
	}
	if again {
		j.awake.Store(true)
		j.rouse()
	}
	return nil
}

// stage adds records to what is written next, and writes what is full.
func (j *Journal) stage(data []byte, refs []record.Ref, k uint64) error {
	if len(refs) == 0 && j.fits(len(data)) {
		j.staging = append(j.staging, data...)
		return nil
	}
	total := len(data)
	for len(data) > 0 {
		var rec, ref []byte
		rec, ref, data, refs = record.Next(data, refs, total-len(data))
		if err := j.stageOne(rec, ref, k); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) stageOne(rec, ref []byte, k uint64) error {
	for !j.fits(len(rec) + len(ref)) {
		if len(j.staging) > j.stagedGlobals {
			if err := j.writeBatch(k); err != nil {
				return err
			}
			continue
		}
		if err := j.rotate(); err != nil {
			return err
		}
	}
	j.staging = append(append(j.staging, rec...), ref...)
	return nil
}

// fits reports whether n more bytes go into the batch that is being staged.
func (j *Journal) fits(n int) bool {
	n += max(len(j.staging), batchHead)
	return n <= batchMax && int64(padded(n)) <= j.cur.room()
}

// stageGlobals starts the first batch of a segment.
func (j *Journal) stageGlobals() {
	g := j.globals
	g.HighID = j.HighID()
	j.staging = g.Append(append(j.staging[:0], make([]byte, batchHead)...))
	j.stagedGlobals = len(j.staging)
}

// writeBatch writes what is staged, as of commit k.
func (j *Journal) writeBatch(k uint64) error {
	j.mu.Lock()
	oldest := j.oldest
	j.marked = oldest
	j.mu.Unlock()
	j.batch++
	out := sealBatch(j.staging, j.id, j.cur.number, &batch{
		number: j.batch, time: j.opts.Now().UnixNano(), synced: j.synced.Load(), oldest: oldest,
	})
	n, err := j.cur.file.WriteAt(out, j.cur.at)
	if err != nil {
		return fmt.Errorf("writing %s: %w", segmentName(j.cur.number), err)
	}
	if n < len(out) {
		return fmt.Errorf("writing %s: only %d of %d bytes were taken", segmentName(j.cur.number), n, len(out))
	}
	j.cur.at += int64(n)
	// No record in it is known under a higher number; see Log.Begin.
	j.cur.lastCommit = k + 1
	j.free.Add(-int64(n))
	j.settle(min(j.taken, int64(n)))
	j.written.Store(j.batch)
	j.staging = append(out[:0], make([]byte, batchHead)...)
	j.stagedGlobals = batchHead
	return nil
}

// settle takes n bytes of what is written off pending, where they were counted until
// they were taken off free.
func (j *Journal) settle(n int64) {
	j.taken -= n
	j.pending.Add(-n)
}

// rotate goes on to the next segment. It waits for one if none is prepared, or cannot
// be opened for want of descriptors.
func (j *Journal) rotate() error {
	for {
		ready, err := j.openNext()
		if err != nil {
			return err
		}
		j.mu.Lock()
		if ready || j.failed != nil {
			break // with mu
		}
		if j.opts.Manual || j.alone {
			stopping := j.stopping
			j.mu.Unlock()
			j.quota.moved() // or may have: it is now or never
			switch {
			case len(j.spares) > 0:
				return fmt.Errorf("the next segment cannot be opened: %w", syscall.EMFILE)
			case j.addSpare():
			case stopping:
				return fmt.Errorf("%w, and %w", ErrStopped, errNoSpace)
			default:
				return fmt.Errorf("no segment is prepared: %w", errNoSpace)
			}
			continue
		}
		if !j.starved {
			j.starved = true
			j.changed.Broadcast() // the keeper may wait for us
		}
		if !j.nextIsOpen() {
			j.poke()
			j.changed.Wait()
		}
		j.mu.Unlock()
	}
	if j.failed != nil {
		j.mu.Unlock()
		return j.failed
	}
	j.starved = false
	old, next := j.cur, j.spares[0]
	j.spares = append(j.spares[:0], j.spares[1:]...)
	j.closed = append(j.closed, old)
	j.unsynced = append(j.unsynced, next)
	j.cur = next
	n := len(j.unsynced)
	behind := n > unsyncedMax || n > 2 && j.disk.hand.short()
	j.mu.Unlock()
	j.free.Add(-old.room())
	j.stageGlobals()
	j.poke()
	if behind {
		// Only with SyncNever, or a disk that is far behind: open files are
		// not without end either.
		return j.sync()
	}
	return nil
}

// unsyncedMax segments at most are written and not synced.
const unsyncedMax = 16

// sync makes durable what is written. An error has ended the journal before
// syncing is free again: a second sync would succeed, and mean nothing.
func (j *Journal) sync() error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	target := j.written.Load()
	j.mu.Lock()
	if err := j.failed; err != nil {
		j.mu.Unlock()
		return err
	}
	if target == j.synced.Load() {
		j.mu.Unlock()
		return nil
	}
	files := append([]*segment(nil), j.unsynced...)
	j.mu.Unlock()
	for _, s := range files {
		if err := s.file.Sync(); err != nil {
			err = fmt.Errorf("syncing %s: %w", segmentName(s.number), err)
			j.fail(err)
			return err
		}
	}
	j.synced.Store(target)
	j.mu.Lock()
	defer j.mu.Unlock()
	// All but the last were full when target was read, or filled up since and
	// are synced as far as target goes; those go with the next sync.
	done := len(files) - 1
	for _, s := range files[:done] {
		s.file.Close()
	}
	j.unsynced = append(j.unsynced[:0], j.unsynced[done:]...)
	return nil
}

// runSyncer makes durable within Options.Every what is written.
func (j *Journal) runSyncer() {
	defer j.running.Done()
	for {
		select {
		case <-j.quit:
			return
		case <-j.dirtied:
		}
		// The first unsynced byte was written just now; the sync itself comes
		// on top of Every.
		select {
		case <-j.quit:
			return
		case <-time.After(j.opts.Every):
		}
		if j.sync() != nil {
			return
		}
	}
}

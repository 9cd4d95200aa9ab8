package wal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"polystalk/shard/stats"
)

// A writer writes batches to the current segment, changes to the next one when that is full, and
// syncs according to the policy. It is the sequencer of a server that is alone (package commit).
// Only the goroutine that makes a commit calls its methods. Syncs run one at a time.
type writer struct {
	*parts
	figures figures

	dirty   waker         // something was written that no commit has synced
	syncing sync.Mutex    // held to sync
	written atomic.Uint64 // the last batch written
	synced  atomic.Uint64 // the last batch durable
}

// figures are the statistics of a writer.
type figures struct {
	bytes atomic.Uint64   // size of all batches, with heads and padding
	syncs stats.Histogram // durations
}

// resume continues after the last batch, which is durable. It is called before anything else.
func (w *writer) resume(batch uint64) {
	w.written.Store(batch)
	w.synced.Store(batch)
}

// Room returns how many bytes can still be written to the current segment.
func (w *writer) Room() int64 { return w.segments.cur.room() }

// BatchWanted reports whether the keeper waits for a batch: it has given up the oldest segment,
// and no batch says yet that this segment is not needed.
func (w *writer) BatchWanted() bool {
	s := w.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.watermark.awaited() && s.oldest != s.marked
}

// Write writes batch number number of commit n. b begins with room for the batch's head. It
// returns a buffer for the next batch.
func (w *writer) Write(b []byte, number, n uint64) (free []byte, err error) {
	out, err := w.put(b, number)
	if err != nil {
		return nil, err
	}
	// No record in it has a higher number: the Commit of a Log's Buffer may be n+1.
	w.segments.cur.lastCommit = n + 1
	w.ledger.Write(int64(len(out)))
	return out, nil
}

// put writes a batch to the current segment, which must have room for it. b begins with room for
// the batch's head. put returns the batch as written.
func (w *writer) put(b []byte, number uint64) (out []byte, err error) {
	s := w.segments
	cur := s.cur
	s.mu.Lock()
	oldest := s.oldest
	s.marked = oldest
	s.mu.Unlock()
	out = sealBatch(b, s.id, cur.number, &batch{
		number: number, time: w.opts.Now().UnixNano(), synced: w.synced.Load(), oldest: oldest,
	})
	k, err := cur.file.WriteAt(out, cur.at)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", SegmentName(cur.number), err)
	}
	if k < len(out) {
		return nil, fmt.Errorf("writing %s: only %d of %d bytes were written", SegmentName(cur.number), k, len(out))
	}
	cur.at += int64(k)
	if cur.at > cur.size {
		panic(fmt.Sprintf("%s is written up to %d of %d bytes", SegmentName(cur.number), cur.at, cur.size))
	}
	w.figures.bytes.Add(uint64(k))
	w.written.Store(number)
	return out, nil
}

// End ends commit n. It syncs if the policy says so, or if a goroutine waits for the commit to
// be durable. safe reports whether n may be acknowledged.
func (w *writer) End(n uint64) (safe bool, err error) {
	w.ledger.Written()
	if w.written.Load() != w.synced.Load() && w.opts.Sync != SyncAlways && !w.awaited() {
		w.dirty.wake()
		return true, nil
	}
	if err := w.sync(); err != nil {
		return false, err
	}
	w.watermark.reach(n)
	return true, nil
}

// awaited reports whether a goroutine waits for a commit.
func (w *writer) awaited() bool {
	w.segments.mu.Lock()
	defer w.segments.mu.Unlock()
	return w.watermark.awaited()
}

// Rotate changes to the next segment. It waits while none is prepared, or none can be opened
// because the process has no descriptor left.
func (w *writer) Rotate() error {
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
	w.wakeKeeper.wake()
	if n > unsyncedMax {
		// Only with SyncNever, or a disk that is far behind: descriptors are limited.
		return w.sync()
	}
	return nil
}

// awaitSpare waits until there may be a spare that can be opened. Without a keeper it prepares one.
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
		s.changed.Broadcast() // the keeper may be in watermark.await
	}
	if !s.nextIsOpen() {
		w.wakeKeeper.wake()
		s.changed.Wait()
	}
	return nil
}

// prepareAlone prepares a spare if there is none, or returns why that is impossible.
func (w *writer) prepareAlone(stopping, none bool) error {
	w.preparer.quota.Moved() // try even if the quota may not have moved: nothing will retry later
	switch {
	case !none:
		return fmt.Errorf("the next segment cannot be opened: %w", syscall.EMFILE)
	case w.preparer.add() == nil:
		return nil
	case w.committer.Err() != nil:
		return w.committer.Err() // the reason was not a full disk
	case stopping:
		return fmt.Errorf("%w, and %w", ErrStopped, errNoSpace)
	}
	return fmt.Errorf("no segment is prepared: %w", errNoSpace)
}

// unsyncedMax is the maximum number of written segments that are not synced.
const unsyncedMax = 16

// Prompt reports whether n bytes could be written now without opening a segment, and without a
// sync. The caller makes the next commit.
func (w *writer) Prompt(n int64) bool { return w.segments.open() >= n && !w.syncDue() }

// syncDue reports whether the next commit must be made durable under any policy.
func (w *writer) syncDue() bool {
	s := w.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.watermark.awaited() || len(s.unsynced) >= unsyncedMax
}

// sync makes all written batches durable. An error ends the journal before syncing is unlocked: a
// second sync would report success although data is lost.
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
			err = fmt.Errorf("syncing %s: %w", SegmentName(f.number), err)
			w.committer.Fail(err)
			return err
		}
	}
	w.figures.syncs.Took(w.opts.Now().Sub(begun))
	w.synced.Store(target)
	s.mu.Lock()
	defer s.mu.Unlock()
	// All files but the last were full when s.unsynced was read, and are synced now. The last
	// one, and later ones, may have newer batches: the next sync includes them.
	done := len(files) - 1
	for _, f := range files[:done] {
		f.file.Close()
	}
	s.unsynced = append(s.unsynced[:0], s.unsynced[done:]...)
	return nil
}

// syncEvery is the goroutine that syncs written batches within the given time.
func (w *writer) syncEvery(every time.Duration, quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-w.dirty:
		}
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

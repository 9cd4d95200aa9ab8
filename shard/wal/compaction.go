package wal

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"polystalk/shard/record"
)

const (
	// copyJobs is how many jobs one visit to a shard copies at most.
	copyJobs = 64
	// idleShare: unless it is urgent, compaction rests this many times as
	// long as it works.
	idleShare = 3
)

// compactable reports whether the oldest segment should be given up.
func (k *keeper) compactable(urgent bool) bool {
	sums := k.ledger.Sums()
	s := k.segments
	s.mu.Lock()
	closed, stopping := len(s.closed), s.stopping
	kept := closed > 0 && s.pinned(s.closed[0].number)
	s.mu.Unlock()
	if closed == 0 || stopping || kept || k.committer.Err() != nil || k.round.Hopeless(closed, sums.Live, sums.Segment) {
		return false
	}
	return sums.Compactable(urgent)
}

// mostlyGarbage reports whether giving up the oldest segment is quicker than
// preparing a new one. For a committer that waits it is not: it could not write the copies.
func (k *keeper) mostlyGarbage() bool {
	sums := k.ledger.Sums()
	s := k.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.starved && len(s.closed) > 0 && s.closed[0].size == s.size && sums.MostlyGarbage()
}

// postpone has compaction wait until less lives, or there is more to give up.
func (k *keeper) postpone() {
	s := k.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	k.round.Postpone(len(s.closed), k.ledger.Sums().Live)
}

// compact copies what lives in the oldest segment to the end, waits until it
// is durable there, and gives the file up. The copies go through the Logs like
// everything else.
//
// The order of the steps is what keeps a power cut at any moment harmless:
//
//  1. Copies are appended. Until they are durable the old records count, and a job that
//     is read twice is the same job.
//  2. The number of the oldest segment that is needed goes on, so that batches say from
//     here on that the old file may be missing. Some may say so before the last copies are
//     written. That is too early, and harmless: the file is there, and what is there is
//     read.
//  3. The commit is waited for that takes what the last visit to a shard appended. It has
//     not begun when the waiting does. Once it is durable, so are all copies and a batch
//     that says that the file may be missing.
//  4. Only then the file goes, or gets the name of a later one.
func (k *keeper) compact(urgent bool) error {
	s := k.segments
	old, err := k.copyOldest(urgent)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.oldest = old.number + 1
	s.mu.Unlock()
	if err := k.watermark.await(k.feedCommitter); err != nil {
		return err
	}
	closed, ok := s.dropOldest()
	if !ok {
		return errPinned
	}
	k.round.GivenUp(closed, k.ledger.Sums().Live)
	return k.giveUp(old)
}

// copyOldest appends copies of what lives in the oldest segment.
func (k *keeper) copyOldest(urgent bool) (*segment, error) {
	s := k.segments
	s.mu.Lock()
	old := s.closed[0]
	k.round.Begin(len(s.closed))
	s.mu.Unlock()
	c := compaction{k: k, segment: old, urgent: urgent, ids: make(map[uint16][]uint64), paused: make(map[string]bool)}
	return old, c.run()
}

// giveUp ends the life of a segment that nobody needs; its file is used again
// if one is wanted, or may stay for later: filling a new one would cost as much as
// writing it.
func (k *keeper) giveUp(old *segment) error {
	if old.size == k.segments.size && (k.segments.anotherWanted() || k.segments.spareAllowed()) {
		return k.preparer.reuse(old)
	}
	if err := k.preparer.remove(old); err != nil {
		return err
	}
	return k.disk.Sync()
}

// A compaction is under way in one segment.
type compaction struct {
	k       *keeper
	segment *segment
	urgent  bool
	batches iter.Seq[batch]
	ids     map[uint16][]uint64 // to be copied, by slot
	paused  map[string]bool     // tubes that were seen already
	room    map[uint64]int64    // promised for large bodies, by job; see makeRoom
	worked  time.Time           // when it last rested
}

// run has everything copied that lives in the segment.
func (c *compaction) run() error {
	data, err := readInto(c.k.disk, c.segment.number, nil)
	if err != nil {
		return err
	}
	c.batches = batches(data[:min(c.segment.at, int64(len(data)))], headerSize, c.k.segments.id, c.segment.number)
	if err := c.makeRoom(); err != nil {
		return err
	}
	defer func() {
		for id := range c.room {
			c.copied(id)
		}
	}()
	c.worked = time.Now()
	n, end := 0, int64(headerSize)
	for b := range c.batches {
		end += int64(b.size)
		if err := c.batch(&b); err != nil {
			return err
		}
		if n += b.size; n >= BatchMax {
			n = 0
			if err := c.rest(); err != nil {
				return err
			}
		}
	}
	if end != c.segment.at {
		return fmt.Errorf("%s cannot be read any more at offset %d", SegmentName(c.segment.number), end)
	}
	for _, slot := range slices.Sorted(maps.Keys(c.ids)) {
		c.visit(slot)
	}
	return nil
}

// errNoCopy is why a segment is not given up now.
var errNoCopy = errors.New("there is no room to copy the large bodies that begin in a segment")

// makeRoom promises room for each large body that begins in the segment and lives, and prepares
// segments for it. Its error is errNoCopy if the disk has no room for that.
//
// Live jobs of one segment fit into the reserve, except large bodies that go on in other segments:
// a job is copied whole. A compaction without room for all of them would use up the reserve
// half-way, and then nothing, not even a delete, could go on until space came from outside.
func (c *compaction) makeRoom() error {
	k, need := c.k, int64(0)
	sums, lives := k.ledger.Sums(), k.opts.Lives
	c.room = make(map[uint64]int64)
	for b := range c.batches {
		for rec := range b.each {
			if kind := record.KindOf(rec); kind != record.KindPut && kind != record.KindCopy {
				continue
			}
			n, id := largeOf(rec), record.IDOf(rec)
			if n == 0 || c.room[id] > 0 || lives != nil && !lives(record.SlotOf(rec), id, c.segment.lastCommit) {
				continue
			}
			c.room[id] = sums.Footprint(n)
			need += c.room[id]
		}
	}
	for !k.ledger.Promise(need) {
		if err := k.preparer.add(); err != nil {
			c.room = nil
			if errors.Is(err, errNoSpace) {
				return errNoCopy
			}
			return err // what passes says nothing of the disk: the next try is soon
		}
	}
	return nil
}

// largeOf returns the length of the body that follows a record in Chunks, or zero.
func largeOf(rec []byte) int64 {
	var r record.Record
	if rec[5]&record.FlagChunked == 0 {
		return 0
	}
	if _, err := record.Parse(&r, rec); err != nil {
		return 0 // it was replayed, or is ours
	}
	return int64(r.Chunked)
}

// copied gives back what was promised for a job: it is in a Log, or gone.
func (c *compaction) copied(id uint64) {
	if n := c.room[id]; n > 0 {
		c.k.ledger.GiveBack(n)
		delete(c.room, id)
	}
}

// batch has copied what lives of one batch, or notes it to be copied with what follows.
func (c *compaction) batch(b *batch) error {
	for rec := range b.each {
		switch record.KindOf(rec) {
		case record.KindPut, record.KindCopy:
			slot, id := record.SlotOf(rec), record.IDOf(rec)
			c.ids[slot] = append(c.ids[slot], id)
			if len(c.ids[slot]) == copyJobs || c.room[id] > 0 {
				c.visit(slot)
				c.copied(id)
			}
		case record.KindPause:
			var r record.Record
			if _, err := record.Parse(&r, rec); err != nil {
				return fmt.Errorf("%s at offset %d: %w", SegmentName(c.segment.number), b.offset, err)
			}
			// Once for each tube: else what is paused again and again would
			// be copied as often, for ever.
			if !c.paused[string(r.Tube)] {
				c.paused[string(r.Tube)] = true
				c.k.opts.CopyPause(r.Slot, r.Tube)
			}
		}
	}
	return nil
}

// visit has the jobs of one slot copied that are noted.
func (c *compaction) visit(slot uint16) {
	if ids := c.ids[slot]; len(ids) > 0 {
		c.k.opts.Copy(slot, ids, c.segment.lastCommit)
		c.k.migrated.Add(uint64(len(ids)))
		c.ids[slot] = ids[:0]
	}
}

// rest lets the disk catch up, and the clients go first. It also sees to it
// that there are segments to go on with.
func (c *compaction) rest() error {
	k := c.k
	if sums := k.ledger.Sums(); sums.Pending > sums.Segment/8 && !k.byHand() {
		if err := k.watermark.await(k.feedCommitter); err != nil {
			return err
		}
	}
	if _, err := k.addIf(k.segments.anotherWanted() && k.segments.anotherAllowed()); err != nil {
		return err
	}
	if c.urgent || k.opts.Manual || k.segments.anotherWanted() {
		c.urgent = true
		return nil
	}
	if !k.pause(min(idleShare*time.Since(c.worked), 100*time.Millisecond)) {
		return ErrStopped
	}
	c.worked = time.Now()
	return nil
}

package wal

import (
	"fmt"
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
	ids     map[uint16][]uint64 // to be copied, by slot
	paused  map[string]bool     // tubes that were seen already
	room    copyRoom
	worked  time.Time // when it last rested
}

// run has everything copied that lives in the segment.
func (c *compaction) run() error {
	data, err := readInto(c.k.disk, c.segment.number, nil)
	if err != nil {
		return err
	}
	if err := c.room.take(c, data); err != nil {
		return err
	}
	defer c.room.end(c.k.ledger)
	c.worked = time.Now()
	n := 0
	for at := int64(headerSize); at < c.segment.at; {
		b, ok := batchAt(data, at, c.k.segments.id, c.segment.number)
		if !ok {
			return fmt.Errorf("%s cannot be read any more at offset %d", segmentName(c.segment.number), at)
		}
		at += int64(b.size)
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
	for _, slot := range slices.Sorted(maps.Keys(c.ids)) {
		c.visit(slot)
	}
	return nil
}

// batch has copied what lives of one batch, or notes it to be copied with what follows.
func (c *compaction) batch(b *batch) error {
	for recs := b.records; len(recs) > 0; {
		rec := recs
		recs = recs[record.Len(recs):]
		switch record.KindOf(rec) {
		case record.KindPut, record.KindCopy:
			slot, id := record.SlotOf(rec), record.IDOf(rec)
			c.ids[slot] = append(c.ids[slot], id)
			if len(c.ids[slot]) == copyJobs || c.room.bytes[id] > 0 {
				c.visit(slot)
				c.room.copied(c.k.ledger, id)
			}
		case record.KindPause:
			var r record.Record
			if _, err := record.Parse(&r, rec); err != nil {
				return fmt.Errorf("%s at offset %d: %w", segmentName(c.segment.number), b.offset, err)
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
	if k.segments.anotherWanted() && k.segments.anotherAllowed() && k.preparer.add() != nil {
		if err := k.committer.Err(); err != nil {
			return err
		}
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

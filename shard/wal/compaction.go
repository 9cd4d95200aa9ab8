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
	// copyJobs is the maximum number of jobs that one visit to a shard copies.
	copyJobs = 64
	// idleShare is the ratio of rest to work of a compaction that is not urgent.
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

// mostlyGarbage reports whether giving up the oldest segment is quicker than preparing a new one.
// It is not while the committer waits for a segment, since it cannot write the copies.
func (k *keeper) mostlyGarbage() bool {
	sums := k.ledger.Sums()
	s := k.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.starved && len(s.closed) > 0 && s.closed[0].size == s.size && sums.MostlyGarbage()
}

// postpone delays compaction until fewer bytes live, or more segments are closed.
func (k *keeper) postpone() {
	s := k.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	k.round.Postpone(len(s.closed), k.ledger.Sums().Live)
}

// compact copies the live jobs of the oldest segment to the end of the log, waits until the
// copies are durable, and gives up the segment. The copies go through the Logs like all records.
//
// The order of the steps makes a power cut at any moment harmless:
//
//  1. Append the copies. Until they are durable the old records count. A job that is read twice
//     is the same job.
//  2. Increase segments.oldest, so that batches say from here on that the old file may be
//     missing. Some may say so before the last copies are written. That is harmless: the file
//     still exists, and a recovery reads every file that exists.
//  3. Wait for the next commit that begins, which takes the copies of the last visit. Once it is
//     durable, so are all copies, and a batch that says that the file may be missing.
//  4. Only then remove the file, or give it the name of a later one.
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

// copyOldest appends copies of the live jobs of the oldest segment.
func (k *keeper) copyOldest(urgent bool) (*segment, error) {
	s := k.segments
	s.mu.Lock()
	old := s.closed[0]
	k.round.Begin(len(s.closed))
	s.mu.Unlock()
	c := compaction{k: k, segment: old, urgent: urgent, ids: make(map[uint16][]uint64), paused: make(map[string]bool)}
	return old, c.run()
}

// giveUp uses the file of an unneeded segment again, if another segment is wanted or a spare may
// stay, since filling a new file costs as much as writing it. Otherwise it removes the file.
func (k *keeper) giveUp(old *segment) error {
	if old.size == k.segments.size && (k.segments.anotherWanted() || k.segments.spareAllowed()) {
		return k.preparer.reuse(old)
	}
	if err := k.preparer.remove(old); err != nil {
		return err
	}
	return k.disk.Sync()
}

// A compaction copies the live jobs of one segment.
type compaction struct {
	k       *keeper
	segment *segment
	urgent  bool
	batches iter.Seq[batch]
	ids     map[uint16][]uint64 // jobs to copy, by slot
	paused  map[string]bool     // tubes with a pause that was copied already
	room    map[uint64]int64    // bytes promised for large bodies, by job; see makeRoom
	worked  time.Time           // when it last rested
}

// run copies all live jobs and pauses of the segment.
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

// errNoCopy is the reason to postpone giving up a segment.
var errNoCopy = errors.New("no space to copy the large bodies that begin in the oldest segment")

// makeRoom promises room for the large bodies of live jobs that begin in the segment, and prepares
// segments for them. Its error is errNoCopy if the disk has no room for that.
//
// The live jobs of one segment fit into the reserve, except large bodies that continue in other
// segments, since a job is copied whole. A compaction without room for all of them would use up the
// reserve half-way. Then nothing, not even a delete, could proceed until an operator frees space.
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
			return err // a temporary error says nothing about the disk: retry soon
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
		return 0 // impossible: this process has parsed or written it
	}
	return int64(r.Chunked)
}

// copied gives back the room promised for a job, which is in a Log now, or has ended.
func (c *compaction) copied(id uint64) {
	if n := c.room[id]; n > 0 {
		c.k.ledger.GiveBack(n)
		delete(c.room, id)
	}
}

// batch copies the live jobs of a batch, or adds them to c.ids to be copied later.
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
		case record.KindPause, record.KindPolicies:
			var r record.Record
			if _, err := record.Parse(&r, rec); err != nil {
				return fmt.Errorf("%s at offset %d: %w", SegmentName(c.segment.number), b.offset, err)
			}
			// Copy only one pause of each tube, and one set of policies, which has no tube.
			// Otherwise the pauses of a tube that is paused repeatedly would be copied for ever.
			if !c.paused[string(r.Tube)] {
				c.paused[string(r.Tube)] = true
				c.k.opts.CopyOther(&r)
			}
		}
	}
	return nil
}

// visit copies the jobs of one slot in c.ids.
func (c *compaction) visit(slot uint16) {
	if ids := c.ids[slot]; len(ids) > 0 {
		c.k.opts.Copy(slot, ids, c.segment.lastCommit)
		c.k.migrated.Add(uint64(len(ids)))
		c.ids[slot] = ids[:0]
	}
}

// rest lets the disk catch up, and gives clients priority. It also prepares segments for the
// next copies.
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

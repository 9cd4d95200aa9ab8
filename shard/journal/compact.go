package journal

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"polystalk/shard/record"
)

// A round is compaction of as many segments as were written when it began, the
// current one included. One that leaves as many is of no use, and neither is another before
// something has changed: what lives can be such that it takes more segments
// than it has bytes for, with the beginnings of large bodies that went on in
// the next segment, and pauses.
type round struct {
	left, before int   // segments
	vain         int   // … with which a round has been of no use; zero: none has
	live         int64 // … then
}

// compacted notes that a segment was given up.
func (j *Journal) compacted() {
	r := &j.round
	if r.left--; r.left > 0 {
		return
	}
	r.vain = 0
	if len(j.closed) >= r.before {
		r.vain, r.live = len(j.closed), j.live.Load()
	}
	r.left, r.before = 0, 0
}

// compactable reports whether the oldest segment should be given up: closed
// segments hold half as much again as lives and half a segment, or, when it is
// urgent, a little more than lives.
func (j *Journal) compactable(urgent bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.closed) == 0 || j.failed != nil || j.stopping {
		return false
	}
	var closed int64
	for _, s := range j.closed {
		closed += s.size
	}
	live, size := j.live.Load(), j.opts.SegmentSize
	// What lives has to have changed by a quarter, if that is less: a queue that empties
	// may have had less than a quarter segment when its last round was of no use.
	if r := &j.round; r.vain >= len(j.closed) && max(r.live-live, live-r.live) < min(size/4, r.live/4+1) {
		return false
	}
	if urgent {
		// Whenever spareAllowed says no, this says yes: with one closed segment,
		// up to half a segment that lives.
		return closed > live+live/16+size*7/16
	}
	return closed > live+live/2+size/2
}

// mostlyGarbage reports whether giving up the oldest segment is quicker than
// preparing a new one.
func (j *Journal) mostlyGarbage() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	var closed int64
	for _, s := range j.closed {
		closed += s.size
	}
	return !j.starved && len(j.closed) > 0 && j.closed[0].size == j.opts.SegmentSize && closed > 4*j.live.Load()
}

const (
	// copyJobs is how many jobs one visit to a shard copies at most.
	copyJobs = 64
	// idleShare: unless it is urgent, compaction rests this many times as
	// long as it works.
	idleShare = 3
)

// compact copies what lives in the oldest segment to the end, waits until it
// is durable there, and gives the file up. The copies go through the Logs like
// everything else.
func (j *Journal) compact(urgent bool) error {
	j.mu.Lock()
	s := j.closed[0]
	if j.round.left == 0 {
		j.round.left = len(j.closed) + 1
		j.round.before = len(j.closed)
	}
	j.mu.Unlock()
	c := compaction{j: j, s: s, urgent: urgent, ids: make(map[uint16][]uint64), paused: make(map[string]bool)}
	if err := c.run(); err != nil {
		return err
	}
	// What the last visit appended goes with a commit that has not begun.
	j.mu.Lock()
	j.oldest = s.number + 1
	j.mu.Unlock()
	if err := j.waitDurable(true); err != nil {
		return err
	}
	j.mu.Lock()
	j.closed = append(j.closed[:0], j.closed[1:]...)
	j.compacted()
	j.mu.Unlock()
	return j.giveUp(s)
}

// giveUp ends the life of a segment that nobody needs; its file is used again
// if one is wanted.
func (j *Journal) giveUp(s *segment) error {
	name := segmentName(s.number)
	if s.size != j.opts.SegmentSize || !j.spareWanted() && !j.roomForSpare() {
		if err := j.disk.Remove(name); err != nil {
			return err
		}
		j.quota.moved()
		return j.disk.Sync()
	}
	j.mu.Lock()
	number := j.nextNumber()
	j.mu.Unlock()
	tmp := segmentName(number) + tmpSuffix
	if err := j.disk.Rename(name, tmp); err != nil {
		return err
	}
	// Under its new number none of its old batches is valid, but first the old
	// name must be gone for good.
	if err := j.disk.Sync(); err != nil {
		return err
	}
	f, err := j.disk.Open(tmp)
	if err != nil {
		return err
	}
	next, err := j.dress(f, tmp, number)
	if err != nil {
		return err
	}
	// As long as there is garbage to make segments of, who needs space waits for
	// that and is not refused.
	if j.full.Load() && j.compactable(true) {
		j.full.Store(false)
	}
	j.addPrepared(next)
	return nil
}

// roomForSpare reports whether a file may stay for later, though no segment is
// wanted yet: filling a new one would cost as much as writing it.
func (j *Journal) roomForSpare() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.spares) < 2 && j.size()+j.opts.SegmentSize <= j.bound()
}

// Durable waits until everything that is in the Logs by now is on disk,
// whatever the policy.
func (j *Journal) Durable() error { return j.waitDurable(false) }

func (j *Journal) waitDurable(keeper bool) error {
	k := j.begun.Load() + 1
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forced = max(j.forced, k)
	for j.durable < k && j.failed == nil {
		if j.opts.Manual {
			j.mu.Unlock()
			err := j.Commit()
			j.mu.Lock()
			if err != nil {
				return err
			}
			continue
		}
		if j.stopping {
			return ErrStopped
		}
		if keeper && j.starved && !j.nextIsOpen() {
			// The committer waits for the keeper, who waits for the committer.
			none := len(j.spares) == 0
			j.mu.Unlock()
			if none && !j.addSpare() {
				j.pause(fullRetry)
			} else if ready, err := j.openNext(); err != nil {
				j.fail(err)
			} else if !ready {
				j.pause(fullRetry)
			}
			j.mu.Lock()
			continue
		}
		j.rouse()
		j.changed.Wait()
	}
	return j.failed
}

// A compaction is under way in one segment.
type compaction struct {
	j      *Journal
	s      *segment
	urgent bool
	ids    map[uint16][]uint64 // to be copied, by slot
	paused map[string]bool     // tubes that were seen already
	room   copyRoom
	worked time.Time
}

func (c *compaction) run() error {
	data, err := readInto(c.j.disk, c.s.number, nil)
	if err != nil {
		return err
	}
	if err := c.room.take(c, data); err != nil {
		return err
	}
	defer c.room.end(c.j)
	c.worked = time.Now()
	n := 0
	for at := int64(headerSize); at < c.s.at; {
		b, ok := batchAt(data, at, c.j.id, c.s.number)
		if !ok {
			return fmt.Errorf("%s cannot be read any more at offset %d", segmentName(c.s.number), at)
		}
		at += int64(b.size)
		for recs := b.records; len(recs) > 0; {
			rec := recs
			recs = recs[record.Len(recs):]
			switch record.KindOf(rec) {
			case record.Put, record.Copy:
				slot := record.SlotOf(rec)
				c.ids[slot] = append(c.ids[slot], record.IDOf(rec))
				if id := record.IDOf(rec); len(c.ids[slot]) == copyJobs || c.room.bytes[id] > 0 {
					c.visit(slot)
					c.room.copied(c.j, id)
				}
			case record.Pause:
				var r record.Record
				if _, err := record.Parse(&r, rec); err != nil {
					return fmt.Errorf("%s at offset %d: %w", segmentName(c.s.number), b.offset, err)
				}
				// Once for each tube: else what is paused again and again would
				// be copied as often, for ever.
				if !c.paused[string(r.Tube)] {
					c.paused[string(r.Tube)] = true
					c.j.opts.CopyPause(r.Slot, r.Tube)
				}
			}
		}
		if n += b.size; n >= batchMax {
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

func (c *compaction) visit(slot uint16) {
	if ids := c.ids[slot]; len(ids) > 0 {
		c.j.opts.Copy(slot, ids, c.s.lastCommit)
		c.j.migrated.Add(uint64(len(ids)))
		c.ids[slot] = ids[:0]
	}
}

// rest lets the disk catch up, and the clients go first. It also sees to it
// that there are segments to go on with.
func (c *compaction) rest() error {
	j := c.j
	if j.pending.Load() > j.opts.SegmentSize/8 {
		if err := j.waitDurable(true); err != nil {
			return err
		}
	}
	if j.spareWanted() && j.spareAllowed() && !j.addSpare() {
		if err := j.failure(); err != nil {
			return err
		}
	}
	if c.urgent || j.opts.Manual || j.spareWanted() {
		c.urgent = true
		return nil
	}
	pause := min(idleShare*time.Since(c.worked), 100*time.Millisecond)
	if !j.pause(pause) {
		return ErrStopped
	}
	c.worked = time.Now()
	return nil
}

// pause waits; it reports false when the journal is to be closed.
func (j *Journal) pause(d time.Duration) bool {
	select {
	case <-j.quit:
		return false
	case <-time.After(d):
		return true
	}
}

package journal

import "polystalk/shard/record"

// A Claim is somebody's call on room in the journal for what is not in a Log yet: the
// part of a body that has arrived, with a step ahead. Room that is promised to one is
// nobody else's, so what a client only announces is not claimed. The zero value claims
// nothing. A Claim belongs to one caller, who ends it with Release.
//
// No two claims can wait for each other. One that waits is answered by the keeper's next
// try to make room: it gets what it asked for, or is refused, and with that loses what it
// had, of which the next to ask can have its part.
type Claim struct {
	bytes   int64  // that may be recorded, without what goes with them
	granted int64  // … with that: its share of Journal.promised
	want    int64  // asked for besides, and waited for: its share of Journal.wants
	after   uint64 // the keeper's tries, or measurings, before the question was put
	fits    bool   // the question is Fits
}

// Bytes is how many may be recorded.
func (c *Claim) Bytes() int64 { return c.bytes }

// Fits asks whether there may be room for n bytes some day, without promising any: an
// answer by what the disk said not long ago, if it is yes, and by what it says when asked
// now, if it is Full. Wait means to ask again after the next Notify.
func (j *Journal) Fits(c *Claim, n int64) Pressure {
	if j.Pressure() == Wait {
		return Wait
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.footprint(n) <= j.capacity():
		c.fits = false
		return Open
	case !c.fits:
		c.fits, c.after = true, j.measured
		j.asked.Store(true)
		j.poke()
	case j.measured > c.after:
		c.fits = false
		return Full
	}
	return Wait
}

// Claim raises c to n bytes, if there is room for them. Wait means to ask again after
// the next Notify, and that room is made meanwhile. Full means that none could be made
// since the question was first put; c is released.
func (j *Journal) Claim(c *Claim, n int64) Pressure {
	if n <= c.bytes {
		return Open
	}
	need := j.footprint(n) - c.granted
	j.mu.Lock()
	defer j.mu.Unlock()
	room := j.available()-need >= j.claimMargin()
	switch {
	case room && j.Pressure() == Open:
		j.promised.Add(need)
		j.wants.Add(-c.want)
		*c = Claim{bytes: n, granted: c.granted + need}
		return Open
	case c.want == 0:
		c.after = j.tries
		j.poke()
	case !room && j.refused > c.after:
		j.wants.Add(-c.want)
		j.promised.Add(-c.granted)
		*c = Claim{}
		j.poke()
		return Full
	}
	j.wants.Add(need - c.want)
	c.want = need
	return Wait
}

// Release gives back what c has and waits for, once its bytes are in a Log or have come
// to nothing. A shard may be owned.
func (j *Journal) Release(c *Claim) {
	if *c != (Claim{}) {
		j.release(c)
	}
}

func (j *Journal) release(c *Claim) {
	j.promised.Add(-c.granted)
	j.wants.Add(-c.want)
	*c = Claim{}
	// Who asks from now on sees that; who waits is told by the keeper.
	if j.Pressure() != Open || j.wants.Load() > 0 || j.full.Load() {
		j.poke()
	}
}

// claimMargin is what claims leave to what is not claimed, and comes in one piece: it
// is refused later than they are.
func (j *Journal) claimMargin() int64 { return j.opts.SegmentSize / 4 }

// footprint is what n bytes of records may take in segments: they bring heads of chunks
// and batches, and the end of a segment stays empty when the next record is too large.
func (j *Journal) footprint(n int64) int64 {
	const largest = record.ChunkMax + 1<<10
	return n + n/256 + n*largest/(j.opts.SegmentSize-largest)
}

// capacity is how many bytes more could be recorded if all that the disk had when it was
// last measured became segments, and all garbage were gone; mu is held.
func (j *Journal) capacity() int64 {
	return j.space + j.size() - j.live.Load() - j.pending.Load() - j.promised.Load() - j.reserve()
}

// measureSpace looks how much the disk has, if somebody has asked.
func (j *Journal) measureSpace() {
	if !j.asked.Swap(false) {
		return
	}
	n := j.diskSpace()
	j.mu.Lock()
	j.space = n
	j.measured++
	j.mu.Unlock()
	j.notify()
}

// diskSpace is what the disk says it has, in bytes; no sum with it overflows.
func (j *Journal) diskSpace() int64 { return min(j.disk.Free(), 1<<60) }

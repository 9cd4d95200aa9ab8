package journal

import (
	"polystalk/shard/commit"
	"polystalk/shard/record"
)

// Fits asks whether there may be room for n bytes some day, without promising any: an
// answer by what the disk said not long ago, if it is yes, and by what it says when asked
// now, if it is Full. Wait means to ask again after the next Notify.
func (j *Journal) Fits(c *commit.Claim, n int64) commit.Pressure {
	if j.Pressure() == commit.Wait {
		return commit.Wait
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.footprint(n) <= j.capacity():
		c.Fitting = false
		return commit.Open
	case !c.Fitting:
		c.Fitting, c.Asked = true, j.measured
		j.asked.Store(true)
		j.poke()
	case j.measured > c.Asked:
		c.Fitting = false
		return commit.Full
	}
	return commit.Wait
}

// Claim raises c to n bytes, if there is room for them. Wait means to ask again after
// the next Notify, and that room is made meanwhile. Full means that none could be made
// since the question was first put; c is released.
func (j *Journal) Claim(c *commit.Claim, n int64) commit.Pressure {
	if n <= c.Body {
		return commit.Open
	}
	need := j.footprint(n) - c.Granted
	j.mu.Lock()
	defer j.mu.Unlock()
	room := j.available()-need >= j.claimMargin()
	switch {
	case room && j.Pressure() == commit.Open:
		j.promised.Add(need)
		j.wants.Add(-c.Wanted)
		*c = commit.Claim{Body: n, Granted: c.Granted + need}
		return commit.Open
	case c.Wanted == 0:
		c.Asked = j.tries
		j.poke()
	case !room && j.refused > c.Asked:
		j.wants.Add(-c.Wanted)
		j.promised.Add(-c.Granted)
		*c = commit.Claim{}
		j.poke()
		return commit.Full
	}
	j.wants.Add(need - c.Wanted)
	c.Wanted = need
	return commit.Wait
}

// Release gives back what c has and waits for, once its bytes are in a Log or have come
// to nothing. A shard may be owned.
func (j *Journal) Release(c *commit.Claim) {
	if *c != (commit.Claim{}) {
		j.release(c)
	}
}

func (j *Journal) release(c *commit.Claim) {
	j.promised.Add(-c.Granted)
	j.wants.Add(-c.Wanted)
	*c = commit.Claim{}
	// Who asks from now on sees that; who waits is told by the keeper.
	if j.Pressure() != commit.Open || j.wants.Load() > 0 || j.full.Load() {
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

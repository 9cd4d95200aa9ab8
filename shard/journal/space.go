package journal

import (
	"errors"
	"time"

	"polystalk/shard/record"
)

// errNoSpace is what every error of a full disk is turned into.
var errNoSpace = errors.New("the disk is full")

// deleteShare is what is kept free for each job's Delete, in bytes, with its
// part of a batch's head.
const deleteShare = record.DeleteSize + 8

// reserve is what changes may not use: room for deleting every job, and for
// copying what lives in one segment, and for the end of every pause.
func (j *Journal) reserve() int64 {
	return j.opts.SegmentSize + j.slack() + deleteShare*j.jobs.Load() + j.pauses.Load()
}

// slack is what goes with that besides: what is copied may leave the ends of two
// segments empty, into which the next record does not go, and the last that were let
// in, on several threads, may take more than was left.
func (j *Journal) slack() int64 {
	n := slackRecords * j.largest.Load()
	return max(0, min(n, j.live.Load()+n-j.opts.SegmentSize))
}

// slackRecords is how many of the largest records slack is for.
const slackRecords = 4

// press recomputes Pressure and tells of it. No shard may be owned and no log
// open: who is told may go on at once.
func (j *Journal) press() {
	p, tight := j.measure()
	j.tight.Store(tight)
	if Pressure(j.pressure.Load()) != p && Pressure(j.pressure.Swap(int32(p))) != p && p != Wait {
		j.notify()
	}
}

// raise is press for who has a log open: it only ever stops others.
func (j *Journal) raise() {
	if p, tight := j.measure(); p != Open {
		j.tight.Store(tight)
		j.pressure.Store(int32(p))
	}
}

// measure returns the pressure, and whether records are to be left out that can be:
// when nothing is left but the reserve, although the disk may only be behind, and
// though a compaction may be about to make room, which itself takes from the reserve.
func (j *Journal) measure() (p Pressure, tight bool) {
	size := j.opts.SegmentSize
	pending := j.pending.Load()
	avail := j.free.Load() - pending - j.promised.Load() - j.reserve()
	switch {
	case avail < size/16:
		p = Wait
		if j.full.Load() {
			p = Full
		}
	case pending > size/4:
		p = Wait
	}
	return p, p == Full || avail < 0
}

// Admit promises room for a large body of n bytes; Wait means to ask again
// after the next Notify. What was promised is given back with Dismiss, once
// the body's records are in a Log or it has come to nothing.
func (j *Journal) Admit(n int64) Pressure {
	if p := j.Pressure(); p != Open {
		return p
	}
	n += n / 16 // chunks' heads and the ends of segments
	j.mu.Lock()
	defer j.mu.Unlock()
	if avail := j.free.Load() - j.pending.Load() - j.promised.Load() - j.reserve(); avail-n >= j.opts.SegmentSize/16 {
		j.promised.Add(n)
		if n >= j.want.Load() {
			j.want.Store(0) // else it is another's, who waits on
		}
		return Open
	}
	if j.full.Load() {
		j.want.Store(0)
		return Full
	}
	j.want.Store(max(j.want.Load(), n))
	j.wanted = time.Now()
	j.poke()
	return Wait
}

// Promise is Admit for a body that is small, and was let in by Pressure, but is not
// there yet: many of them together are not small.
func (j *Journal) Promise(n int64) {
	j.promised.Add(n + n/16)
	j.raise()
}

// Dismiss gives back what Admit or Promise promised for a body of n bytes.
func (j *Journal) Dismiss(n int64) {
	j.promised.Add(-(n + n/16))
	// Who asks from now on sees that. Who has seen the promise has raised the pressure,
	// or will poke once it has said what it wants.
	if j.Pressure() != Open || j.want.Load() > 0 {
		j.poke() // the keeper tells who waits; the caller may own a shard
	}
}

// roomForWanted reports whether a large body waits for which there is room.
func (j *Journal) roomForWanted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	avail := j.free.Load() - j.pending.Load() - j.promised.Load() - j.reserve()
	return j.want.Load() > 0 && avail-j.want.Load() >= j.opts.SegmentSize/16
}

// spareWanted reports whether another segment should be prepared.
func (j *Journal) spareWanted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	size := j.opts.SegmentSize
	ahead := j.free.Load() - j.promised.Load() - j.reserve()
	return j.starved || ahead < size/2 || j.want.Load() > 0 && ahead < j.want.Load()+size/4
}

// size is the bytes of all segments; mu is held.
func (j *Journal) size() (n int64) {
	for _, s := range j.closed {
		n += s.size
	}
	for _, s := range j.spares {
		n += s.size
	}
	if j.cur != nil {
		n += j.cur.size
	}
	return n
}

// bound is what the directory may hold: twice what lives, three segments, and slack.
func (j *Journal) bound() int64 {
	return 2*(j.live.Load()+j.promised.Load()) + 3*j.opts.SegmentSize + j.slack()
}

// spareAllowed reports whether another segment keeps the bound. A committer
// that can do nothing, not even make space, gets one in any case.
func (j *Journal) spareAllowed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.starved || j.want.Load() > 0 || j.size()+j.opts.SegmentSize <= j.bound()
}

// overBound reports whether the directory holds more than it may.
func (j *Journal) overBound() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size() > j.bound()
}

package journal

import (
	"errors"

	"polystalk/shard/commit"
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

// ahead is what may still be written, besides the reserve and what is promised;
// available leaves out what waits to be written.
func (j *Journal) ahead() int64     { return j.free.Load() - j.promised.Load() - j.reserve() }
func (j *Journal) available() int64 { return j.ahead() - j.pending.Load() }

// press recomputes Pressure and tells of it. No shard may be owned and no log
// open: who is told may go on at once.
func (j *Journal) press() {
	p, tight := j.measure()
	j.tight.Store(tight)
	if commit.Pressure(j.pressure.Load()) != p && commit.Pressure(j.pressure.Swap(int32(p))) != p && p != commit.Wait {
		j.notify()
	}
}

// raise is press for who has a log open: it only ever stops others.
func (j *Journal) raise() {
	if p, tight := j.measure(); p != commit.Open {
		j.tight.Store(tight)
		j.pressure.Store(int32(p))
	}
}

// measure returns the pressure, and whether records are to be left out that can be:
// when nothing is left but the reserve, although the disk may only be behind, and
// though a compaction may be about to make room, which itself takes from the reserve.
func (j *Journal) measure() (p commit.Pressure, tight bool) {
	size := j.opts.SegmentSize
	pending := j.pending.Load()
	avail := j.ahead() - pending
	switch {
	case avail < size/16:
		p = commit.Wait
		if j.full.Load() {
			p = commit.Full
		}
	case pending > size/4:
		p = commit.Wait
	}
	return p, p == commit.Full || avail < 0
}

// spareWanted reports whether another segment should be prepared.
func (j *Journal) spareWanted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	wants := j.wants.Load()
	return j.starved || j.ahead() < j.opts.SegmentSize/2 || wants > 0 && j.available() < wants+j.claimMargin()
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
	return j.starved || j.wants.Load() > 0 || j.size()+j.opts.SegmentSize <= j.bound()
}

// overBound reports whether the directory holds more than it may.
func (j *Journal) overBound() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size() > j.bound()
}

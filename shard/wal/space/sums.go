package space

import (
	"polystalk/shard/record"
)

// Sums are the figures of one moment; all are bytes but Jobs. See the package's
// documentation for what they have to do with each other.
type Sums struct {
	Segment  int64 // the size of a new segment
	Promised int64 // to Claims, and to a compaction under way
	Wanted   int64 // asked for by Claims that wait
	Pending  int64 // in Logs, or taken from there and not written yet
	Free     int64 // in segments, and not written yet
	Live     int64 // a Copy of every job
	Jobs     int64 // jobs that live
	Pauses   int64 // the ends of all pauses
	Largest  int64 // the largest record of a job there has been
	Size     int64 // all segments
	Closed   int64 // those that are not written any more
}

// deleteShare is what is kept for each job's Delete, in bytes, with its part of a batch's
// head.
const deleteShare = record.DeleteSize + 8

// slackRecords is how many of the largest records Slack is for.
const slackRecords = 4

// Reserve is what changes may not use.
func (s *Sums) Reserve() int64 {
	return s.Segment + s.slack() + deleteShare*s.Jobs + s.Pauses
}

// slack is kept besides a segment's worth of copies: two ends of segments may stay empty, and the
// last records that several threads let in may take more than was left.
func (s *Sums) slack() int64 {
	n := slackRecords * s.Largest
	return max(0, min(n, s.Live+n-s.Segment))
}

// ahead is what may still be written besides the reserve and what is promised, before
// anything that is pending.
func (s *Sums) ahead() int64 { return s.Free - s.Promised - s.Reserve() }

// Available is what may still be promised, or taken in by changes in one piece.
func (s *Sums) Available() int64 { return s.ahead() - s.Pending }

// margin is what claims leave to what is not claimed, and comes in one piece: that is
// refused later than they are.
func (s *Sums) margin() int64 { return s.Segment / 4 }

// fitsInto reports whether changes that need space fit where free bytes are free, besides the
// reserve that deletes and compaction need.
func (s *Sums) fitsInto(free int64) bool {
	return free-s.Promised-s.Pending-s.Reserve() >= s.Segment/16
}

// Footprint is what n bytes of records may take in segments: they bring heads of chunks
// and batches, and the end of a segment stays empty when the next record is too large.
func (s *Sums) Footprint(n int64) int64 {
	const largest = record.ChunkMax + 1<<10
	return n + n/256 + n*largest/(s.Segment-largest)
}

// bound is what the directory may hold: twice what lives, three segments, and slack.
func (s *Sums) bound() int64 {
	return 2*(s.Live+s.Promised) + 3*s.Segment + s.slack()
}

// capacity is how many bytes more could be recorded if all that the disk has besides the
// segments became segments, and all garbage were gone.
func (s *Sums) capacity(disk int64) int64 {
	return disk + s.Size - s.Live - s.Pending - s.Promised - s.Reserve()
}

// Pressure says whether changes are taken. They are Full where they would Wait, once a segment was
// wanted and there was no space to prepare it. tight says that records are left out that no command
// needs: also when nothing is left but the reserve, although the disk may only be behind.
func (s *Sums) Pressure(full bool) (p Pressure, tight bool) {
	available := s.Available()
	switch {
	case available < s.Segment/16:
		p = Wait
		if full {
			p = Full
		}
	case s.Pending > s.Segment/4:
		p = Wait
	}
	return p, p == Full || available < 0
}

// anotherWanted reports whether another segment should be prepared: before clients have to
// wait, or because claims do. It looks at Ahead, not at what is available, since what is
// pending is about to be written whether or not there is another.
func (s *Sums) anotherWanted() bool {
	return s.ahead() < s.Segment/2 || s.Wanted > 0 && s.Available() < s.Wanted+s.margin()
}

// AnotherAllowed reports whether another segment keeps the bound, or is needed for a claim: the
// bytes of a claim count in the bound only once they are promised.
func (s *Sums) AnotherAllowed() bool { return s.Wanted > 0 || s.Size+s.Segment <= s.bound() }

// PinsAllowed reports whether another segment is allowed because a Pin keeps the oldest ones: up
// to twice the bound.
func (s *Sums) PinsAllowed() bool { return s.Size+s.Segment <= 2*s.bound() }

// SpareAllowed reports whether a segment that is given up may stay as a spare, though none
// is wanted yet.
func (s *Sums) SpareAllowed() bool { return s.Size+s.Segment <= s.bound() }

// OverBound reports whether the directory holds more than it may.
func (s *Sums) OverBound() bool { return s.Size > s.bound() }

// SpareSurplus reports whether nobody is about to need the last spare segment.
func (s *Sums) SpareSurplus() bool { return s.Wanted == 0 && s.ahead() >= s.Segment+s.Segment/2 }

// Compactable reports whether giving up the oldest segment is worth what has to be copied: closed
// segments hold half as much again as lives and half a segment, or, when it is urgent, a little
// more than lives. See the package comment.
func (s *Sums) Compactable(urgent bool) bool {
	if urgent {
		return s.Closed > s.Live+s.Live/16+s.Segment*7/16
	}
	return s.Closed > s.Live+s.Live/2+s.Segment/2
}

// MostlyGarbage reports whether to give up the oldest segment is quicker than to prepare a
// new one.
func (s *Sums) MostlyGarbage() bool { return s.Closed > 4*s.Live }

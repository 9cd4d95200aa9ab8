package space

import (
	"polystalk/shard/record"
)

// Sums are the sums at one moment, in bytes except Jobs. The package comment explains how they
// are related.
type Sums struct {
	Segment  int64 // the size of a new segment
	Promised int64 // to Claims, and to a compaction under way
	Wanted   int64 // asked for by Claims that wait
	Pending  int64 // in Logs, or taken from there and not written yet
	Free     int64 // in segments, and not written yet
	Live     int64 // size of a Copy of every job
	Jobs     int64 // number of live jobs
	Pauses   int64 // size of the records that will end all pauses
	Largest  int64 // size of the largest record of a job so far
	Size     int64 // size of all segments
	Closed   int64 // size of the segments that are not written any more
}

// deleteShare is the reserve for each job's Delete, in bytes, with a part of a batch's head.
const deleteShare = record.DeleteSize + 8

// slackRecords is the slack in records of the largest size.
const slackRecords = 4

// Reserve returns the bytes that changes must not use.
func (s *Sums) Reserve() int64 {
	return s.Segment + s.slack() + deleteShare*s.Jobs + s.Pauses
}

// slack is the reserve in addition to a segment's worth of copies: two ends of segments may stay
// empty, and records that several threads admit at once may exceed the available bytes.
func (s *Sums) slack() int64 {
	n := slackRecords * s.Largest
	return max(0, min(n, s.Live+n-s.Segment))
}

// ahead returns the free bytes without the reserve and the promised bytes, before pending ones
// are subtracted.
func (s *Sums) ahead() int64 { return s.Free - s.Promised - s.Reserve() }

// Available returns the bytes that can still be promised, or used by changes in one piece.
func (s *Sums) Available() int64 { return s.ahead() - s.Pending }

// margin is what claims leave to changes in one piece, so that those are refused later than claims.
func (s *Sums) margin() int64 { return s.Segment / 4 }

// fitsInto reports whether a server with the given number of free bytes has room for changes, in
// addition to the reserve.
func (s *Sums) fitsInto(free int64) bool {
	return free-s.Promised-s.Pending-s.Reserve() >= s.Segment/16
}

// Footprint returns the bytes that n bytes of records may take in segments: with the heads of
// chunks and batches, and the empty ends of segments where the next record is too large.
func (s *Sums) Footprint(n int64) int64 {
	const largest = record.ChunkMax + 1<<10
	return n + n/256 + n*largest/(s.Segment-largest)
}

// bound returns the maximum size of the directory: twice the live bytes, three segments, and slack.
func (s *Sums) bound() int64 {
	return 2*(s.Live+s.Promised) + 3*s.Segment + s.slack()
}

// capacity returns how many more bytes could be recorded if all free space of the disk became
// segments, and all garbage were removed.
func (s *Sums) capacity(disk int64) int64 {
	return disk + s.Size - s.Live - s.Pending - s.Promised - s.Reserve()
}

// Pressure returns whether changes are accepted. full says that there was no space for a wanted
// segment: then a lack of available bytes is Full instead of Wait. tight says that records that no
// command needs are left out: if the pressure is Full, or only the reserve is left.
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

// anotherWanted reports whether another segment should be prepared: before clients must wait, or
// because claims wait. For the first it uses ahead, not Available, since pending bytes will be
// written even without another segment.
func (s *Sums) anotherWanted() bool {
	return s.ahead() < s.Segment/2 || s.Wanted > 0 && s.Available() < s.Wanted+s.margin()
}

// AnotherAllowed reports whether another segment keeps the bound, or is needed for a claim: the
// bytes of a claim count in the bound only once they are promised.
func (s *Sums) AnotherAllowed() bool { return s.Wanted > 0 || s.Size+s.Segment <= s.bound() }

// PinsAllowed reports whether another segment is allowed because a Pin keeps the oldest ones: up
// to twice the bound.
func (s *Sums) PinsAllowed() bool { return s.Size+s.Segment <= 2*s.bound() }

// SpareAllowed reports whether a segment that is given up may stay as a spare although no other
// segment is wanted.
func (s *Sums) SpareAllowed() bool { return s.Size+s.Segment <= s.bound() }

// OverBound reports whether the directory exceeds its bound.
func (s *Sums) OverBound() bool { return s.Size > s.bound() }

// SpareSurplus reports whether the last spare segment will not be needed soon.
func (s *Sums) SpareSurplus() bool { return s.Wanted == 0 && s.ahead() >= s.Segment+s.Segment/2 }

// Compactable reports whether giving up the oldest segment is worth its copies: the closed
// segments hold more than 1.5 times the live bytes plus half a segment, or, if it is urgent, a
// little more than the live bytes. See the package comment.
func (s *Sums) Compactable(urgent bool) bool {
	if urgent {
		return s.Closed > s.Live+s.Live/16+s.Segment*7/16
	}
	return s.Closed > s.Live+s.Live/2+s.Segment/2
}

// MostlyGarbage reports whether giving up the oldest segment is quicker than preparing a new one.
func (s *Sums) MostlyGarbage() bool { return s.Closed > 4*s.Live }

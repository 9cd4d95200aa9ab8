package space

// A Round is the compaction of as many segments as there were at its beginning, including the
// current one. A round that leaves as many segments is fruitless, and so is the next one before
// something has changed: large bodies that continue in the next segment, and pauses, may take more
// segments than their bytes need. Without this check such a journal would be copied for ever. It
// belongs to the keeper.
type Round struct {
	left   int // segments that the round must still give up; zero: there is no round
	before int // closed segments at its beginning

	// fruitlessAt is the number of closed segments after the last round if it was fruitless or
	// postponed; zero: it was useful. fruitlessLive is the number of live bytes then.
	fruitlessAt   int
	fruitlessLive int64
}

// Begin starts a round, unless there is one. closed is the number of closed segments.
func (r *Round) Begin(closed int) {
	if r.left == 0 {
		r.left, r.before = closed+1, closed
	}
}

// GivenUp records that a segment was given up. closed is the number of remaining closed ones.
func (r *Round) GivenUp(closed int, live int64) {
	if r.left--; r.left > 0 {
		return
	}
	fruitless := closed >= r.before
	*r = Round{}
	if fruitless {
		r.fruitlessAt, r.fruitlessLive = closed, live
	}
}

// Hopeless reports whether another round would be fruitless: there are no more closed segments
// than after a fruitless round, and about as many live bytes.
//
// A change of the live bytes by a quarter segment can make a round useful again. If fewer bytes
// lived than a segment has, a change by a quarter of them is enough: otherwise a full disk would
// stay full after the queue becomes empty.
func (r *Round) Hopeless(closed int, live, segment int64) bool {
	changed := max(r.fruitlessLive-live, live-r.fruitlessLive)
	return r.fruitlessAt >= closed && changed < min(segment/4, r.fruitlessLive/4+1)
}

// Postpone delays the next round until the live bytes change, or more segments are closed.
func (r *Round) Postpone(closed int, live int64) {
	*r = Round{fruitlessAt: closed, fruitlessLive: live}
}

// End ends the round, if there is one, since there is nothing to give up.
func (r *Round) End() { r.left = 0 }

package space

// A Round is compaction of as many segments as there were when it began, the current one
// included. One that leaves as many is fruitless, and so is another before something has changed:
// large bodies that go on in the next segment, and pauses, may take more segments than they have
// bytes for. Without this, such a journal would be copied for ever. It belongs to the keeper.
type Round struct {
	left   int // segments that are to be given up yet; zero: no round is under way
	before int // closed segments when it began

	// fruitlessAt is how many closed segments there were when a whole round had last given
	// none back, or had to be put off; zero: the last one was of use. fruitlessLive is how
	// many bytes lived then.
	fruitlessAt   int
	fruitlessLive int64
}

// Begin starts a round, unless one is under way. closed is the number of closed segments.
func (r *Round) Begin(closed int) {
	if r.left == 0 {
		r.left, r.before = closed+1, closed
	}
}

// GivenUp notes that a segment was given up, which leaves closed ones.
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

// Hopeless reports whether another round would be fruitless: there are no more closed
// segments than when one was, and about as much lives.
//
// About as much is within a quarter segment, by which a round can be of use again. If less lived
// all the time, a quarter of it: otherwise a disk that only a round could free would stay full
// when the queue becomes empty.
func (r *Round) Hopeless(closed int, live, segment int64) bool {
	changed := max(r.fruitlessLive-live, live-r.fruitlessLive)
	return r.fruitlessAt >= closed && changed < min(segment/4, r.fruitlessLive/4+1)
}

// Postpone notes that a round has to wait until less lives, or there is more to give up.
func (r *Round) Postpone(closed int, live int64) {
	*r = Round{fruitlessAt: closed, fruitlessLive: live}
}

// End ends the round that is under way, if any: there is nothing to give up.
func (r *Round) End() { r.left = 0 }

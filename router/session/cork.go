package session

import (
	"time"

	"polystalk/shard/core"
)

// A cork keeps back a little of what a session says, to be sent with what it says next, as
// Nagle's algorithm does for a socket: to write to a socket is most of what a small reply
// costs. Only what its protocol marks by Cork is kept back, only while the loop is busy,
// and for CorkMax at most.
type cork struct {
	kept  []byte    // output; nothing else is to be sent before it
	since core.Time // when that began
	upTo  int       // the loop's output up to here may be kept back, if it is all of it
}

const (
	CorkMax = core.Time(2 * time.Millisecond)
	// busyGap between a loop's callbacks, on average, makes it a busy one. A client and
	// a worker that have the loop to themselves leave longer gaps.
	busyGap = core.Time(20 * time.Microsecond)
	// gapWeight is how many callbacks that average is over.
	gapWeight = 8
	// togetherMax bytes are copied to be sent with what was kept back.
	togetherMax = 4 << 10
	// corkStep is the least time between two looks at what is kept back.
	corkStep = core.Time(200 * time.Microsecond)
)

// A corking is a session with output kept back since then, unless it was sent and there is
// other since.
type corking struct {
	s     *Session
	since core.Time
}

// corks are a loop's sessions with output kept back.
type corks struct {
	list []corking // the oldest first
	at   core.Time // when uncork has something to do, if there is any
	gap  core.Time // between callbacks, on average
	// runAfter calls Loop.run after that time; nil: no replies are kept back.
	runAfter func(time.Duration)
}

// Cork says that all output that was gathered up to here may wait for what follows it.
func (s *Session) Cork() {
	if s.out.cork == nil {
		s.out.cork = new(cork)
	}
	s.out.cork.upTo = len(s.loop.out)
}

// keepCorked keeps out back if it is all marked and the loop is busy.
func (s *Session) keepCorked(out []byte) bool {
	c, l := s.out.cork, s.loop
	upTo := c.upTo
	c.upTo = 0
	if upTo != len(out) || l.corks.gap > busyGap || l.corks.runAfter == nil || s.end > open {
		return false
	}
	c.kept = append(c.kept, out...)
	c.since = l.batch.Now
	if len(l.corks.list) == 0 {
		l.unfinished.Add(1)
		l.lookAtCorked(CorkMax)
	}
	l.corks.list = append(l.corks.list, corking{s, c.since})
	return true
}

// Uncork sends what was kept back.
func (s *Session) Uncork() {
	if s.out.cork != nil {
		s.sendCorked(nil)
	}
}

// sendCorked sends what was kept back, and p behind it.
func (s *Session) sendCorked(p []byte) {
	c := s.out.cork
	c.upTo = 0
	if len(c.kept) > 0 && len(p) <= togetherMax {
		c.kept = append(c.kept, p...)
		p = nil
	}
	s.write(c.kept)
	c.kept = c.kept[:0]
	s.write(p)
}

// lookAtCorked has uncork called d from now.
func (l *Loop) lookAtCorked(d core.Time) {
	l.corks.at = l.batch.Now + d
	l.corks.runAfter(time.Duration(d))
}

// uncork sends what was kept back for long enough.
func (l *Loop) uncork() {
	if len(l.corks.list) == 0 || l.batch.Now < l.corks.at {
		return
	}
	i := 0
	for ; i < len(l.corks.list); i++ {
		e := l.corks.list[i]
		if c := e.s.out.cork; len(c.kept) > 0 && c.since == e.since {
			if l.batch.Now-e.since < CorkMax {
				break
			}
			e.s.Uncork()
		}
	}
	k := copy(l.corks.list, l.corks.list[i:])
	clear(l.corks.list[k:])
	if l.corks.list = l.corks.list[:k]; k == 0 {
		l.unfinished.Add(-1)
		return
	}
	l.lookAtCorked(max(l.corks.list[0].since+CorkMax-l.batch.Now, corkStep))
}

package session

import (
	"time"

	"polystalk/router/ops"
	"polystalk/shard/core"
)

// A round shares the time of a loop out among its sessions. It begins when the
// loop's own wake-up comes through its poller, together with whatever else is ready:
// so between the beginnings of two rounds every socket that has something to say is
// heard, and who does more than a round allows waits for the next, in a queue.
//
// A session that brings input while the round is used up, or one that has little
// left to do, gets some units all the same; see fresh. So a client that sends a command
// and waits for the answer never queues behind those that pipeline without end.
//
// Work is counted in units of about unitTime, and the clock is looked at every
// lookUnits: the count says when to look, and the clock what it was really worth. A
// Driven's clock stands still in a turn, so that there the count alone decides.
type round struct {
	budget int // what the turn under way may still use before it asks for more
	lent   int // budget as it was given
	share  int // what the turn may use besides, all in all
	left   int // of the round; below zero: overdrawn

	counted int       // units since the clock was looked at
	looked  core.Time // when that was; time awake
}

const (
	// unitTime is what a plain command costs, or a little more.
	unitTime = core.Time(500 * time.Nanosecond)
	// lookUnits of work are done until the clock is looked at.
	lookUnits = 32
	// RoundUnits are done in a round, an eighth of a millisecond, by those who came
	// first. With twice as many, who sends a command and waits for its answer waits
	// twice as long behind a client that pipelines without end, which gets on by a
	// tenth faster.
	RoundUnits = 256
	// shareUnits are what each in the queue may use of a round at least, so that its
	// replies leave in few pieces.
	shareUnits = 256
	// freshUnits are what all together may use who are not in the queue, each between
	// the two others.
	freshUnits, freshMin, freshMost = 8192, 16, 256
	// FreshBytes of held input are little left to do.
	FreshBytes = 1 << 10
	// DebtUnits at most are spent on answers when the round is used up; then those
	// wait as well.
	DebtUnits = 1024

	// InputUnits are what a callback of the event loop and its read take, WriteUnits
	// what a write takes.
	InputUnits = 8
	WriteUnits = 8
	// PartUnits are what a part of bounded work in a shard takes; see Session.Later.
	PartUnits = 1024
)

// startTurn begins a turn that may use so many units. endTurn ends it.
func (l *Loop) startTurn(share int) {
	r := &l.round
	r.share = share
	r.lent = min(share, lookUnits)
	r.budget = r.lent
}

// shareOf is what s may use of the round when it has its turn for something else than
// its place in the queue.
func (l *Loop) shareOf(s *Session) int {
	share := max(l.round.left, 0)
	if l.queue.len() > 0 {
		share = min(share, shareUnits)
	}
	if s.held() <= FreshBytes {
		share = max(share, l.fresh())
	}
	return share
}

// fresh is what a session may use however little is left of the round: the more
// connections there are that may all come at once, the less.
func (l *Loop) fresh() int {
	return max(freshMin, min(freshMost, freshUnits/max(1, l.roll.n)))
}

// endTurn has what s said in its turn sent, and counts what the turn has used.
func (l *Loop) endTurn(s *Session) {
	if s != nil {
		s.Flush()
		s.giveMessage()
	}
	r := &l.round
	l.spendRound(r.lent - r.budget)
	r.lent, r.budget, r.share = 0, 0, 0
}

// more lends the turn, which has spent its budget, the next units of its share. It reports
// false if none are left: the turn is over.
func (l *Loop) more() bool {
	r := &l.round
	before := r.left
	l.spendRound(r.lent - r.budget)
	r.share -= before - r.left
	r.lent = max(0, min(r.share, lookUnits))
	r.budget = r.lent
	return r.budget > 0
}

// spendRound takes units off the round, or what they were worth by the clock: at least a
// quarter, since what comes between two looks is not only turns.
func (l *Loop) spendRound(units int) {
	r := &l.round
	r.left -= units
	if r.counted += units; r.counted >= lookUnits {
		now := l.host.Clock.Awake()
		if took := int((now - r.looked) / unitTime); took > 0 {
			r.left += r.counted - max(took, r.counted/4)
		}
		r.counted, r.looked = 0, now
	}
}

// Spend counts units of work that the turn under way has done.
func (l *Loop) Spend(units int) { l.round.budget -= units }

// SpendOne counts a unit, and reports whether the turn may go on. It implements ops.Pace.
func (l *Loop) SpendOne() (goOn bool) {
	l.round.budget--
	if l.host.LookMost != ops.LookMost {
		l.round.budget -= RoundUnits // a test has a survey take many rounds
	}
	return l.round.budget > 0 || l.more()
}

// LookMost implements ops.Pace.
func (l *Loop) LookMost() int { return l.host.LookMost }

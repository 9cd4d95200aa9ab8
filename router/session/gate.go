package session

import "sync/atomic"

// A gate is where a loop's sessions wait for the disk: those whose replies wait for a
// commit, and those whose commands wait for room.
type gate struct {
	replies []*Session // that wait for a commit
	room    []*Session // that wait for room
	freed   []*Session // that go on once those with replies were looked at

	// waiting is the number of both, for who must know it without having the loop.
	// looking says that the loop will look at them: lookAtGate, which anyone may call,
	// need not see to it again.
	waiting atomic.Int64
	looking atomic.Bool
}

// awaitCommit puts s on the list of sessions with replies behind the gate.
func (l *Loop) awaitCommit(s *Session) {
	l.gate.replies = append(l.gate.replies, s)
	l.unfinished.Add(1)
	l.gate.waiting.Add(1)
	if s.out.commit <= s.acked() || l.host.Journal.Here() {
		// It was acknowledged since, and nobody knew that we wait; or it is for us to
		// have it written, once the other connections had their turns.
		l.lookAtGate()
	}
}

// block puts s on the list of sessions that wait for room.
func (l *Loop) block(s *Session) {
	l.gate.room = append(l.gate.room, s)
	l.gate.waiting.Add(1)
	if s.canAsk() {
		l.lookAtGate() // there is room since, and nobody knew that we wait
	}
}

// lookAtGate has the loop look at what its sessions wait for, if any does. It may be
// called by anyone.
func (l *Loop) lookAtGate() {
	if l.gate.waiting.Load() > 0 && l.gate.looking.CompareAndSwap(false, true) {
		l.run()
	}
}

// openGate goes on with the sessions whose commits are acknowledged, or for whom there is
// room. One commit may be what thousands wait for: when the round is overdrawn the others
// wait for the next.
func (l *Loop) openGate() {
	g := &l.gate
	if g.waiting.Load() == 0 {
		g.looking.Store(false)
		return
	}
	if len(g.replies) > 0 {
		g.looking.Store(true) // no need to be told what is seen below
		l.host.Journal.CommitHere()
	}
	g.looking.Store(false)
	l.openForReplies()
	// Only now, since a turn may bring its session onto the list again.
	for i, s := range g.freed {
		g.freed[i] = nil
		l.turn(s, func(s *Session) { s.lift(Uncommitted) })
	}
	g.freed = g.freed[:0]
	l.openForRoom()
}

// openForReplies sends what was acknowledged.
func (l *Loop) openForReplies() {
	g := &l.gate
	acked := l.host.Journal.Acked()
	kept := g.replies[:0]
	for i, s := range g.replies {
		if l.round.left <= -DebtUnits {
			kept = append(kept, g.replies[i:]...)
			l.Ask()
			break
		}
		if s.life < closing && !s.letGo(acked) {
			kept = append(kept, s)
		} else {
			g.waiting.Add(-1)
			l.unfinished.Add(-1)
		}
		if s.stops&Uncommitted != 0 && s.out.bytes <= s.unsentMost()/2 || len(s.out.replies) == 0 && s.end > open {
			g.freed = append(g.freed, s)
		}
	}
	clear(g.replies[len(kept):])
	g.replies = kept
}

// openForRoom has those try again for whom there may be room.
func (l *Loop) openForRoom() {
	g := &l.gate
	waiting := g.room
	g.room = nil
	for _, s := range waiting {
		switch {
		case s.life >= closing:
			g.waiting.Add(-1)
		case s.canAsk():
			g.waiting.Add(-1)
			l.turn(s, func(s *Session) { s.lift(NoSpace) })
		default:
			g.room = append(g.room, s)
		}
	}
}

package session

import (
	"polystalk/shard"
	"polystalk/shard/core"
)

// A call is the one operation of a session: what it is, where it is to be run, and how far
// it is.
type call struct {
	msg   *core.Message // nil: none is needed now; see Loop.takeMessage
	shard int32         // to be visited, or visited last
	state callState
	until Stops // of callDeferred: it waits for these to be lifted

	taking bool // Protocol.Took is under way: nothing is to be begun, only noted
	after  bool // Protocol.Next is to be called once no shard is owned
}

// A callState says how far a call is.
type callState uint8

const (
	callIdle     callState = iota
	callReady              // it is to be run on call.shard
	callAway               // its message is with a busy shard
	callDeferred           // Protocol.Next is to be called in a later turn
)

func (c callState) String() string {
	return [...]string{"idle", "ready", "away", "deferred"}[c]
}

// Op is the operation that Visit has run. Fields that its kind does not read may have
// values of earlier ones, also of other sessions. It is the same until the command is done,
// or at least to the end of the turn.
func (s *Session) Op() *core.Op {
	if s.call.msg == nil {
		s.call.msg = s.loop.takeMessage(s)
	}
	return &s.call.msg.Op
}

// takeMessage lends the session a message for what it does next. A session without an
// operation has none: most connections are idle, and a message is as large as all the
// rest of a session. In place, all sessions of a loop use the same one.
func (l *Loop) takeMessage(s *Session) *core.Message {
	n := len(l.messages)
	if n == 0 {
		return &core.Message{Home: l, Owner: s, Op: core.Op{Conn: s.notes.number}}
	}
	m := l.messages[n-1]
	l.messages = l.messages[:n-1]
	m.Owner, m.Op.Conn = s, s.notes.number
	return m
}

// messagesMost are kept by a loop: more were under way at a time, at busy shards.
const messagesMost = 64

// giveMessage takes the message back at the end of a turn, unless an operation is under way
// or was put off.
func (s *Session) giveMessage() {
	m := s.call.msg
	if m == nil || s.call.state != callIdle {
		return
	}
	s.call.msg = nil
	m.Op.Function, m.Op.Waiter = nil, nil // these are the session's
	m.Op.Large, m.Reply.Large = nil, nil  // which would keep a body whose job is gone
	if l := s.loop; len(l.messages) < messagesMost {
		l.messages = append(l.messages, m)
	}
}

// Visited is the shard of the reply that Took was given.
func (s *Session) Visited() int { return int(s.call.shard) }

// Visit has Op run on a shard, by Run; Took gets the reply.
func (s *Session) Visit(shard int) {
	if s.call.state != callIdle {
		s.impossible("has an operation to run")
	}
	s.call.shard = int32(shard)
	s.call.state = callReady
}

// After has Next called by Run, once no shard is owned.
func (s *Session) After() { s.call.after = true }

// Later has Next called in a later turn, when the loop's other connections had theirs and
// none of until is set. units are counted as what the turn has done.
func (s *Session) Later(units int, until Stops) {
	if s.call.state != callIdle {
		s.impossible("puts an operation off")
	}
	s.call.state, s.call.until = callDeferred, until
	s.loop.round.budget -= units
	if s.life == ready {
		s.move(busy)
	}
	s.loop.later(s)
}

// Deferred reports whether Next is to be called in a later turn.
func (s *Session) Deferred() bool { return s.call.state == callDeferred }

// deferredAgain gives a call that was put off another turn: what it waits for, besides its
// turn, may be there.
func (s *Session) deferredAgain() {
	if s.call.state == callDeferred {
		s.loop.later(s)
	}
}

// Run runs what Visit and After have asked for, until the command is done or put off, or a
// shard is busy. Then its message is left there. A protocol calls it at the end of each
// command, the session after everything else.
func (s *Session) Run() {
	l := s.loop
	s.finish()
	for s.call.state == callReady {
		sh := l.shards[s.call.shard]
		if s.call.taking {
			s.impossible("wants another shard while it owns one")
		}
		if !sh.Own(&l.batch) {
			s.send(sh)
			return
		}
		s.call.state, s.call.taking = callIdle, true
		m := s.call.msg
		r := &m.Reply
		sh.Apply(&l.batch, &m.Op, r)
		if r.Commit > s.out.commit {
			s.out.commit = r.Commit
		}
		// The reply's body is copied out under ownership; what is next is only
		// noted, since it must not run while a shard is owned.
		s.proto.Took(r)
		s.call.taking = false
		sh.Release(&l.batch)
		s.finish()
	}
}

// send leaves the operation with a busy shard.
func (s *Session) send(sh *shard.Shard) {
	l := s.loop
	s.call.state = callAway
	s.call.msg.Keep()
	if s.life == ready {
		s.move(busy)
	}
	l.unfinished.Add(1)
	sh.Send(&l.batch, s.call.msg)
}

// returned takes the operation back from the shard.
func (s *Session) returned() {
	if s.call.state != callAway {
		s.impossible("gets an answer to nothing")
	}
	m := s.call.msg
	s.loop.unfinished.Add(-1)
	s.call.state = callIdle
	if s.life == busy {
		s.move(ready)
	}
	s.Depend(m.Reply.Commit)
	s.call.taking = true
	s.proto.Took(&m.Reply)
	s.call.taking = false
	if s.permit.unlet == 0 {
		m.Done()
	}
	s.Run()
}

// finish does what was left to be done with no shard owned, mostly nothing.
func (s *Session) finish() {
	if s.large || s.call.after {
		s.finishLeft()
	}
}

func (s *Session) finishLeft() {
	if s.large {
		s.writeLarge()
	}
	for s.call.after {
		s.call.after = false
		s.proto.Next()
	}
}

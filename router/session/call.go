package session

import (
	"polystalk/shard"
	"polystalk/shard/core"
)

// A call is the one operation of a session: its message, its shard and its progress.
type call struct {
	msg   *core.Message // nil: none is needed now; see Loop.takeMessage
	shard int32         // to be visited, or visited last
	state callState
	until Stops // of callDeferred: it waits until none of these is set

	replying bool // Protocol.Replied is under way: it only notes what comes next
	after    bool // Protocol.Next is to be called once no shard is owned
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

// Op returns the operation that Visit runs. Fields that its kind does not read may have
// values of earlier operations, also of other sessions. It stays the same until the
// command is done, or at least to the end of the turn.
func (s *Session) Op() *core.Op {
	if s.call.msg == nil {
		s.call.msg = s.loop.takeMessage(s)
	}
	return &s.call.msg.Op
}

// takeMessage lends the session a message for its next operation. An idle session has
// none: most connections are idle, and a message is as large as the rest of a session.
// In place, all sessions of a loop use the same one.
func (l *Loop) takeMessage(s *Session) *core.Message {
	n := len(l.messages)
	if n == 0 {
		return &core.Message{Home: l, Owner: s, Op: core.Op{Conn: s.activity.number}}
	}
	m := l.messages[n-1]
	l.messages = l.messages[:n-1]
	m.Owner, m.Op.Conn = s, s.activity.number
	return m
}

// messagesMost are kept by a loop: more are only used at the same time at busy shards.
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
	m.Op.Large, m.Reply.Large = nil, nil  // they would keep a deleted job's body
	if l := s.loop; len(l.messages) < messagesMost {
		l.messages = append(l.messages, m)
	}
}

// Visited returns the shard of the reply that Replied was given.
func (s *Session) Visited() int { return int(s.call.shard) }

// Visit lets Run run Op on a shard; Replied gets the reply.
func (s *Session) Visit(shard int) {
	if s.call.state != callIdle {
		s.impossible("has an operation to run")
	}
	s.call.shard = int32(shard)
	s.call.state = callReady
}

// After lets Run call Next once no shard is owned.
func (s *Session) After() { s.call.after = true }

// Later has Next called in a later turn, after the loop's other connections had theirs and
// when none of until is set. units are counted as work of this turn.
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

// deferredAgain gives a call that was put off another turn, in which it looks whether it
// may go on.
func (s *Session) deferredAgain() {
	if s.call.state == callDeferred {
		s.loop.later(s)
	}
}

// Run runs what Visit and After have noted, until the command is done or put off, or a
// shard is busy. Then the message is left there. A protocol calls it at the end of each
// command, the session after everything else.
func (s *Session) Run() {
	l := s.loop
	s.finish()
	for s.call.state == callReady {
		sh := l.shards[s.call.shard]
		if s.call.replying {
			s.impossible("wants another shard while it owns one")
		}
		if !sh.Own(&l.batch) {
			s.send(sh)
			return
		}
		s.call.state, s.call.replying = callIdle, true
		m := s.call.msg
		r := &m.Reply
		sh.Apply(&l.batch, &m.Op, r)
		if r.Commit > s.out.commit {
			s.out.commit = r.Commit
		}
		// The reply's body is copied out under ownership; what comes next is only
		// noted, since it must not run while a shard is owned.
		s.proto.Replied(r)
		s.call.replying = false
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
	s.call.replying = true
	s.proto.Replied(&m.Reply)
	s.call.replying = false
	if s.room.joining == 0 {
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

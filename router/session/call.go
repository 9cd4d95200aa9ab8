package session

import (
	"polystalk/shard"
	"polystalk/shard/core"
)

// A call is the one operation of a session: its message, its shard and its progress.
type call struct {
	msg   *core.Message // nil: none is needed now; see Loop.takeMessage
	shard int32         // the next shard to visit, or the last one visited
	state callState
	until Stops // callDeferred: it waits until none of these is set

	replying bool // Protocol.Replied is running: it only notes the next step
	after    bool // Protocol.Next must be called once no shard is owned
}

// A callState is the progress of a call.
type callState uint8

const (
	callIdle     callState = iota
	callReady              // will run on call.shard
	callAway               // its message is in the inbox of a busy shard
	callDeferred           // Protocol.Next will be called in a later turn
)

func (c callState) String() string {
	return [...]string{"idle", "ready", "away", "deferred"}[c]
}

// Op returns the operation that Visit runs. Fields that its kind does not read may have
// values of earlier operations, also of other sessions. Op returns the same pointer until the
// command is done, and at least until the end of the turn.
func (s *Session) Op() *core.Op {
	if s.call.msg == nil {
		s.call.msg = s.loop.takeMessage(s)
	}
	return &s.call.msg.Op
}

// takeMessage lends the session a message for its next operation. An idle session has none,
// because a message is as large as the rest of a session. Operations that run in place all use
// the same message.
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

// messagesMost is how many free messages a loop keeps. Only busy shards need several at once.
const messagesMost = 64

// giveMessage returns the message to the loop at the end of a turn, unless an operation is
// pending or deferred.
func (s *Session) giveMessage() {
	m := s.call.msg
	if m == nil || s.call.state != callIdle {
		return
	}
	s.call.msg = nil
	m.Op.Function, m.Op.Waiter = nil, nil // the session owns these
	m.Op.Large, m.Reply.Large = nil, nil  // they would keep a deleted job's body
	if l := s.loop; len(l.messages) < messagesMost {
		l.messages = append(l.messages, m)
	}
}

// Visited returns the shard of the reply that Replied was given.
func (s *Session) Visited() int { return int(s.call.shard) }

// Visit makes Run run Op on a shard; Replied gets the reply.
func (s *Session) Visit(shard int) {
	if s.call.state != callIdle {
		s.impossible("has an operation to run")
	}
	s.call.shard = int32(shard)
	s.call.state = callReady
}

// After makes Run call Next once no shard is owned.
func (s *Session) After() { s.call.after = true }

// Later defers the call of Next to a later turn, after the turns of the loop's other
// connections and when none of until is set. units are counted as work of this turn.
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

// deferredAgain queues another turn for a deferred call, which checks then whether it may
// continue.
func (s *Session) deferredAgain() {
	if s.call.state == callDeferred {
		s.loop.later(s)
	}
}

// Run runs the steps that Visit and After have noted, until the command is done or deferred,
// or its message was left at a busy shard. A protocol calls Run at the end of each command;
// the session calls it after each other event.
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
		// Replied copies the reply's body while the shard is owned. The next step is only
		// noted, because it must not run while a shard is owned.
		s.proto.Replied(r)
		s.call.replying = false
		sh.Release(&l.batch)
		s.finish()
	}
}

// send puts the operation into the inbox of a busy shard.
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

// finish does the work that must wait until no shard is owned; usually there is none.
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

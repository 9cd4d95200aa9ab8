package session

import (
	"fmt"
	"log/slog"

	"polystalk/router/access"
	"polystalk/shard/core"
)

// A life is the state of a session; the package doc shows which state may follow which. Code
// compares lives by order: a session that is busy or later parses nothing, and one that is closing
// or later sends no reply.
type life uint8

const (
	ready   life = iota // parses commands, unless one of Stops is set
	busy                // an operation is pending or deferred
	waiting             // a reserve waits
	closing             // releases its jobs and tubes; no more input or output
	gone
)

func (l life) String() string {
	return [...]string{"ready", "busy", "waiting", "closing", "gone"}[l]
}

// moves has, for each life, the bits of the lives that may follow.
var moves = [...]uint8{
	ready:   1<<busy | 1<<waiting | 1<<closing,
	busy:    1 << ready,
	waiting: 1<<ready | 1<<closing,
	closing: 1 << gone,
	gone:    0,
}

// An ending says how a session will end. It only increases.
type ending uint8

const (
	open       ending = iota
	halfClosed        // the client sends no more: close after replying to the received commands
	quitting          // discard further input; close after the last reply
	refused           // quitting in mid-request: close so that the client can still read the error
	broken            // close as soon as no operation is pending
)

// roles are the groups in which the server's statistics count a session, until it is gone.
type roles uint8

// The roles. A session keeps them, except waiting and sleeping.
const (
	Producer roles = 1 << iota // it has put a job
	Worker                     // it has reserved a job, or tried to
	Sleeper                    // it is a Gearman worker that sleeps until there is a job
	waits                      // its reserve waits, or did when the session was closed
	numRoles = iota
)

// A Session is one connection of one client, on one event loop. A protocol's connection type
// embeds it by value and calls its methods; see protocol.
type Session struct {
	loop  *Loop
	conn  Conn
	proto protocol

	life     life
	end      ending
	stops    Stops
	roles    roles
	queued   bool  // in the loop's queue for a later turn
	large    bool  // the loop holds a large body that it must send; see SendLarge
	unproven bool  // see Unproven
	front    uint8 // index of its Front in Host.fronts
	activity activity
	access   *access.Credential // see Credential

	call  call
	in    input
	out   output
	body  Body
	room  room
	usage usage
}

// Init initializes the session that p embeds, for the connection c on loop l.
func (s *Session) Init(l *Loop, c Conn, p protocol) {
	s.loop, s.conn, s.proto = l, c, p
}

// move changes the session's life.
func (s *Session) move(to life) {
	if moves[s.life]&(1<<to) == 0 {
		s.impossible("moves to " + to.String())
	}
	s.life = to
}

// impossible panics because the session's state is inconsistent.
func (s *Session) impossible(what string) {
	panic(fmt.Sprintf("session of %v: %s, but is %v, ending %d, stops %#x, call %v to shard %d, queued %v",
		PeerOf(s.conn), what, s.life, s.end, s.stops, s.call.state, s.call.shard, s.queued))
}

// Loop returns the session's loop.
func (s *Session) Loop() *Loop { return s.loop }

// Host returns what all loops share.
func (s *Session) Host() *Host { return s.loop.host }

// Front returns the Front that made the session.
func (s *Session) Front() Front { return (*s.loop.host.fronts.Load())[s.front] }

// Conn returns its connection.
func (s *Session) Conn() Conn { return s.conn }

// Closing reports whether the session is closing or gone: it must not reply any more.
func (s *Session) Closing() bool { return s.life >= closing }

// Busy reports whether an operation is pending or deferred.
func (s *Session) Busy() bool { return s.life == busy }

// Waiting reports whether a reserve of the session waits.
func (s *Session) Waiting() bool { return s.life == waiting }

// IsGone reports whether the session has ended and no shard knows it any more.
func (s *Session) IsGone() bool { return s.life == gone }

// Broken reports whether the session will close as soon as it can: replies are useless.
func (s *Session) Broken() bool { return s.end == broken }

// HalfClosed reports whether the session takes no more input.
func (s *Session) HalfClosed() bool { return s.end >= halfClosed }

// Stopped reports whether no more input may be used now.
func (s *Session) Stopped() bool { return s.stops != 0 || s.life != ready || s.end >= quitting }

// AddRole counts the session in a role.
func (s *Session) AddRole(r roles) {
	if s.roles&r == 0 {
		s.roles |= r
		s.loop.counts.role(r).Add(1)
	}
}

// DropRole ends a role.
func (s *Session) DropRole(r roles) {
	if s.roles&r != 0 {
		s.roles &^= r
		s.loop.counts.role(r).Add(-1)
	}
}

// Go does everything that is possible now. Every event ends with a call of Go.
func (s *Session) Go() {
	switch {
	case s.life == ready || s.life == waiting && s.end == broken:
	default:
		return
	}
	if s.end == broken {
		s.close()
		return
	}
	s.parse()
	s.settle()
}

// settle resumes a paused connection if little input is held. It closes a session that takes no
// more input once every reply has left.
func (s *Session) settle() {
	if s.life != ready || s.stops != 0 || s.queued || s.end == broken {
		return
	}
	if s.in.flow == paused && s.held() <= s.loop.host.HeldMost/4 {
		if s.conn.Unsent() > 0 {
			s.stops |= Unread // until AllSent is called
			return
		}
		if !s.readAgain() {
			return
		}
	}
	if s.end > open {
		s.Flush() // replies of this turn may have to wait for a commit
		if len(s.out.replies) == 0 {
			s.close()
		}
	}
}

// turn is the turn for which Loop.later has queued the session.
func (s *Session) turn() {
	if s.call.state == callDeferred {
		if s.stops&s.call.until != 0 && s.end != broken && s.life < closing {
			return // lift queues it again
		}
		s.call.state = callIdle
		if s.life == busy {
			s.move(ready)
		}
		s.proto.Next()
		s.Run()
	}
	s.Go()
}

// arrived takes a message from the loop's outbox.
func (s *Session) arrived(m *core.Message) {
	if m == s.call.msg {
		s.returned()
	} else {
		s.proto.Woken(m)
		s.Run()
	}
	s.Go()
}

// Quit makes the session ignore further commands, and close after all output was sent.
func (s *Session) Quit() { s.end = max(s.end, quitting) }

// QuitNow is Quit, but it does not wait for the socket: it closes the connection at once,
// unless some output waits for a commit.
func (s *Session) QuitNow() {
	s.Quit()
	s.Flush()
	if len(s.out.replies) == 0 {
		s.close()
	}
}

// Refuse is Quit in the middle of a request: the client may send more, unless it has
// half-closed.
func (s *Session) Refuse() {
	if s.end == open {
		s.end = refused
		return
	}
	s.Quit()
}

// HalfClose notes that the client sends no more. A wait ends now, also for its identity's rate: puts
// above the rate are then refused. The connection is closed after the replies to all received commands.
func (s *Session) HalfClose() {
	if s.life >= closing {
		return
	}
	s.end = max(s.end, halfClosed)
	if s.life == waiting {
		s.proto.GiveUp()
		s.Run()
		s.Go()
		return
	}
	if s.stops&Throttled != 0 {
		s.refund()
		s.unthrottle()
		return
	}
	s.settle()
}

// Abort ends the session without further replies. It closes only after a pending operation has
// returned: the effect of the operation must be known before it can be undone.
func (s *Session) Abort() {
	s.end = broken
	s.listUsage()
	s.deferredAgain()
	if s.life != busy && s.life < closing && s.call.state == callIdle && !s.call.replying {
		s.close()
	}
}

// Kill ends the session as if its connection had broken: its reserved jobs become ready at
// once. It has no effect on a session that is closing. It must be called in a turn of the
// session.
func (s *Session) Kill() {
	if s.life < closing {
		s.Abort()
	}
}

// Wait makes the session wait for a wake-up, until EndWait.
func (s *Session) Wait() {
	s.move(waiting)
	s.AddRole(waits)
}

// EndWait ends a Wait.
func (s *Session) EndWait() {
	s.move(ready)
	s.DropRole(waits)
}

// close closes the connection, then releases the session's jobs and tubes.
func (s *Session) close() {
	l := s.loop
	s.move(closing)
	s.refund()
	if s.stops&Throttled != 0 {
		s.stopTimer()
	}
	s.Flush()
	s.uncork()
	s.dropReplies()
	s.EndBody()
	s.dropInput()
	s.closeConn()
	// A client that one returned job wakes must find all of them returned, because
	// beanstalkd returns them in one step.
	l.batch.Defer = true
	s.proto.Close()
	s.Run()
	l.batch.Defer = false
	l.batch.Deliver()
}

func (s *Session) closeConn() {
	switch s.end {
	case broken:
		s.conn.Drop()
		return
	case refused:
		if p, ok := s.conn.(parter); ok {
			p.Part()
			return
		}
	}
	s.conn.Close()
}

// Gone ends the session. Statistics count it until now, so a client that sees one connection
// less also sees its jobs ready again.
func (s *Session) Gone() {
	s.move(gone)
	s.access.Leave()
	for r := Producer; r <= waits; r <<= 1 {
		s.DropRole(r)
	}
	l := s.loop
	l.counts.fronts[s.front].open.Add(-1)
	l.registry.remove(s)
	if len(l.registry.ends) > 0 {
		for _, f := range l.registry.ends[s] {
			f()
		}
		delete(l.registry.ends, s)
	}
}

// WhenGone calls f, with the loop held, once the session is gone and no shard knows it. The
// caller must hold the loop.
func (s *Session) WhenGone(f func()) {
	if s.life == gone {
		f()
		return
	}
	r := &s.loop.registry
	if r.ends == nil {
		r.ends = make(map[*Session][]func())
	}
	r.ends[s] = append(r.ends[s], f)
}

// LogValue implements slog.LogValuer: the log shows a session as its client's address. slog
// calls it only for lines that are written.
func (s *Session) LogValue() slog.Value { return slog.StringValue(PeerName(PeerOf(s.conn))) }

package session

import (
	"fmt"
	"log/slog"

	"polystalk/shard/core"
)

// A life is how far a session is; the package doc shows what moves it. The order counts:
// from busy on nothing is parsed, from closing on nothing is answered.
type life uint8

const (
	ready   life = iota // parses commands, unless one of Stops is set
	busy                // an operation is under way, or put off
	waiting             // a reserve waits
	closing             // gives back what it has; no more input or output
	gone
)

func (l life) String() string {
	return [...]string{"ready", "busy", "waiting", "closing", "gone"}[l]
}

// moves are the lives that may follow each.
var moves = [...]uint8{
	ready:   1<<busy | 1<<waiting | 1<<closing,
	busy:    1 << ready,
	waiting: 1<<ready | 1<<closing,
	closing: 1 << gone,
	gone:    0,
}

// An ending is how a session is about to end. It only moves on.
type ending uint8

const (
	open       ending = iota
	halfClosed        // the client sends no more: what is here is answered, then it is closed
	quitting          // no more is taken from it; it is closed once it has its replies
	refused           // like quitting, in mid-request: closed so that the client can still read why
	broken            // it is closed as soon as no operation is under way
)

// roles are what a session counts as in the server's statistics, until it is gone.
type roles uint8

// The roles. A session keeps them, except waiting and sleeping.
const (
	Producer roles = 1 << iota // it has put a job
	Worker                     // it has reserved a job, or tried to
	Sleeper                    // it works for functions, and sleeps until there is a job
	waits                      // its reserve waits, or did when the session was closed
)

// A Session is one connection of one client, on one event loop. A protocol's connection
// embeds it by value and calls its methods; see Protocol.
type Session struct {
	loop  *Loop
	conn  Conn
	proto protocol

	life     life
	end      ending
	stops    Stops
	roles    roles
	queued   bool  // in the loop's queue for a later turn
	large    bool  // the loop has a large body for it to send; see SendLarge
	front    uint8 // index of its Front in Host.fronts
	activity activity

	call  call
	in    input
	out   output
	body  Body
	room  room
	usage usage
}

// Init makes the session that p embeds the session of a connection on the loop.
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

// impossible ends the process: the session's state contradicts itself.
func (s *Session) impossible(what string) {
	panic(fmt.Sprintf("session of %v: %s, but is %v, ending %d, stops %#x, call %v to shard %d, queued %v",
		PeerOf(s.conn), what, s.life, s.end, s.stops, s.call.state, s.call.shard, s.queued))
}

// Loop returns the session's loop.
func (s *Session) Loop() *Loop { return s.loop }

// Host returns what all loops share.
func (s *Session) Host() *Host { return s.loop.host }

// Front returns the protocol's side of the server.
func (s *Session) Front() Front { return (*s.loop.host.fronts.Load())[s.front] }

// Conn returns its connection.
func (s *Session) Conn() Conn { return s.conn }

// Closing reports whether the session is closing or gone: it must say nothing more.
func (s *Session) Closing() bool { return s.life >= closing }

// Busy reports whether an operation is under way, or put off.
func (s *Session) Busy() bool { return s.life == busy }

// Waiting reports whether a reserve of the session waits.
func (s *Session) Waiting() bool { return s.life == waiting }

// IsGone reports whether the session has ended and no shard knows it any more.
func (s *Session) IsGone() bool { return s.life == gone }

// Broken reports whether the session will close as soon as it can: replies are useless.
func (s *Session) Broken() bool { return s.end == broken }

// HalfClosed reports whether the session takes no more input.
func (s *Session) HalfClosed() bool { return s.end >= halfClosed }

// Stopped reports whether no more of the input may be used now.
func (s *Session) Stopped() bool { return s.stops != 0 || s.life != ready || s.end >= quitting }

// AddRole counts the session in a role.
func (s *Session) AddRole(r roles) {
	if s.roles&r == 0 {
		s.roles |= r
		s.loop.countRole(r, 1)
	}
}

// DropRole ends a role.
func (s *Session) DropRole(r roles) {
	if s.roles&r != 0 {
		s.roles &^= r
		s.loop.countRole(r, -1)
	}
}

// Go does what can be done now; every event ends here.
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

// settle reads a paused connection again. It closes a session that takes no more input
// after everything is answered.
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
		s.Flush() // what this turn said may have to wait
		if len(s.out.replies) == 0 {
			s.close()
		}
	}
}

// turn is the turn that Loop.later has promised.
func (s *Session) turn() {
	if s.call.state == callDeferred {
		if s.stops&s.call.until != 0 && s.end != broken && s.life < closing {
			return // lift comes back to it
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

// arrived takes a message out of the loop's outbox.
func (s *Session) arrived(m *core.Message) {
	if m == s.call.msg {
		s.returned()
	} else {
		s.proto.Woken(m)
		s.Run()
	}
	s.Go()
}

// Quit makes the session take no more commands, and close when all output has left.
func (s *Session) Quit() { s.end = max(s.end, quitting) }

// QuitNow is Quit without waiting for the socket: the connection is closed at once, unless
// some output waits for a commit.
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

// HalfClose tells that the client sends no more. What it sent is answered, then the
// connection is closed; a wait ends now.
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
	s.settle()
}

// Abort ends the session without any more answers. An operation under way comes back
// first: its effect must be known before it can be undone.
func (s *Session) Abort() {
	s.end = broken
	s.listUsage()
	s.deferredAgain()
	if s.life != busy && s.life < closing && s.call.state == callIdle && !s.call.replying {
		s.close()
	}
}

// Kill ends the session as if its connection had broken: what it holds goes back at once,
// as after the loss of a worker. It has no effect on a session that closes already. It is
// called in a turn of the session.
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

// EndWait ends what Wait began.
func (s *Session) EndWait() {
	s.move(ready)
	s.DropRole(waits)
}

// close closes the connection, then gives back what the session holds.
func (s *Session) close() {
	l := s.loop
	s.move(closing)
	s.Flush()
	s.uncork()
	s.dropReplies()
	s.EndBody()
	s.dropInput()
	s.closeConn()
	// A client that is woken by one returned job must find all of them returned: the
	// reference does this in one go.
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

// Gone ends the session. Only now do statistics stop counting it: a client that sees one
// connection less also sees its jobs ready again.
func (s *Session) Gone() {
	s.move(gone)
	for _, r := range [...]roles{Producer, Worker, Sleeper, waits} {
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

// WhenGone calls f, with the loop held, when the session is gone: no shard knows it any
// more. The caller must hold the loop.
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

// LogValue implements slog.LogValuer: a session stands in the log, as conn, for its
// client's address. It is called only for a line that is written.
func (s *Session) LogValue() slog.Value { return slog.StringValue(PeerName(PeerOf(s.conn))) }

package session

import (
	"fmt"
	"log/slog"

	"polystalk/shard/core"
)

// A life is how far a session is; the package doc shows what moves it. The order counts:
// from busy on nothing is parsed, from closing on nobody is answered any more.
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
	refused           // like quitting, but the client may be in mid-request: closed so that it can still read why
	broken            // it is closed as soon as no operation is under way
)

// Stops are reasons not to parse commands.
type Stops uint8

// The reasons, each lifted by an event of its own.
const (
	Unread      Stops = 1 << iota // replies are not being read
	Uncommitted                   // too many replies wait for commits
	NoSpace                       // the next command, or part of a body, waits for room on the disk; see Block
	NoPlace                       // the next command's large body waits for a place among others; see Crowded
)

// Roles are what a session is counted as in the server's statistics, until it is gone.
type Roles uint8

// The roles. They stay once they were taken on, but for waiting and sleeping.
const (
	Producer Roles = 1 << iota // it has put a job
	Worker                     // it has reserved one, or wanted to
	Sleeper                    // it works for functions, and sleeps until there is a job; see Leave
	waits                      // a reserve of it waits, or did when it was closed
)

// A Session is one connection of one client, on one event loop. A protocol's connection
// embeds it by value and calls its methods; see Protocol.
type Session struct {
	loop  *Loop
	conn  Conn
	proto Protocol

	life   life
	end    ending
	stops  Stops
	roles  Roles
	queued bool  // on the loop's list of sessions that go on in a later turn
	large  bool  // the loop has a large body for it to send; see SendLarge
	front  uint8 // whose session it is, among Host.fronts
	notes  notes

	call   call
	in     input
	out    output
	body   Body
	permit permit
	charge charge
}

// Init makes the session that p embeds that of a connection on the loop.
func (s *Session) Init(l *Loop, c Conn, p Protocol) {
	s.loop, s.conn, s.proto = l, c, p
}

// move changes the session's life.
func (s *Session) move(to life) {
	if moves[s.life]&(1<<to) == 0 {
		s.impossible("moves to " + to.String())
	}
	s.life = to
}

// impossible ends the process: the session is not as it must be.
func (s *Session) impossible(what string) {
	panic(fmt.Sprintf("session of %v: %s, but is %v, ending %d, stops %#x, call %v to shard %d, queued %v",
		PeerOf(s.conn), what, s.life, s.end, s.stops, s.call.state, s.call.shard, s.queued))
}

// Loop is the session's loop.
func (s *Session) Loop() *Loop { return s.loop }

// Host is what its loops share.
func (s *Session) Host() *Host { return s.loop.host }

// Front is whose session it is.
func (s *Session) Front() Front { return (*s.loop.host.fronts.Load())[s.front] }

// Conn is its connection.
func (s *Session) Conn() Conn { return s.conn }

// Closing reports whether the session is closing or gone: nothing is to be said any more.
func (s *Session) Closing() bool { return s.life >= closing }

// Busy reports whether an operation is under way, or put off.
func (s *Session) Busy() bool { return s.life == busy }

// Waiting reports whether a reserve of the session waits.
func (s *Session) Waiting() bool { return s.life == waiting }

// IsGone reports that the session has ended and no shard knows it any more.
func (s *Session) IsGone() bool { return s.life == gone }

// Broken reports whether the session is to close as soon as it can: what it asked for is
// of no use any more.
func (s *Session) Broken() bool { return s.end == broken }

// HalfClosed reports whether the client sends no more, or is not listened to any more.
func (s *Session) HalfClosed() bool { return s.end >= halfClosed }

// Stopped reports whether no more of the input may be used now.
func (s *Session) Stopped() bool { return s.stops != 0 || s.life != ready || s.end >= quitting }

// Reads reports whether the next command may be parsed, for who parses it if so. It is more
// than a question: when the turn's time is spent it may not, and the session is put into
// the queue for a later turn.
func (s *Session) Reads() bool {
	if s.Stopped() {
		return false
	}
	if s.loop.round.budget <= 0 && !s.loop.more() {
		s.loop.later(s)
		return false
	}
	return true
}

// MayGoOn reports whether a reply that comes in parts may go on in this turn. It spends
// nothing: each part does, by Spend.
func (s *Session) MayGoOn() bool {
	return s.stops == 0 && (s.loop.round.budget > 0 || s.loop.more())
}

// Spend counts units of work that the turn has done.
func (s *Session) Spend(units int) { s.loop.round.budget -= units }

// Take has the session counted in a role.
func (s *Session) Take(r Roles) {
	if s.roles&r == 0 {
		s.roles |= r
		s.loop.countRole(r, 1)
	}
}

// Leave ends a role that Take has begun.
func (s *Session) Leave(r Roles) {
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

// settle reads a paused connection again, and lets a client go that sends no more once
// everything it sent is answered.
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

// lift takes a reason to stop away, and goes on.
func (s *Session) lift(r Stops) {
	s.stops &^= r
	s.deferredAgain()
	s.Go()
}

// AllSent is called when the connection has sent everything.
func (s *Session) AllSent() {
	s.listCharged()
	if s.stops&Unread != 0 {
		s.lift(Unread)
	}
}

// turn is what Loop.later has promised.
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
		s.proto.Came(m)
		s.Run()
	}
	s.Go()
}

// Quit has the session take no more commands, and close when all that was said has left.
func (s *Session) Quit() { s.end = max(s.end, quitting) }

// QuitNow is Quit for a client that has nothing more to hear than what was said: the
// connection is closed at once, unless some of that waits for a commit.
func (s *Session) QuitNow() {
	s.Quit()
	s.Flush()
	if len(s.out.replies) == 0 {
		s.close()
	}
}

// Refuse is Quit because of what the client says, of which there may be more, unless it has
// said that there is not.
func (s *Session) Refuse() {
	if s.end == open {
		s.end = refused
		return
	}
	s.Quit()
}

// HalfClose: the client sends no more. What it sent is answered, then the connection is
// closed; a wait ends now.
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

// Abort ends the session without answering any more. An operation under way comes back
// first: what it did must be known to be undone.
func (s *Session) Abort() {
	s.end = broken
	s.listCharged()
	s.deferredAgain()
	if s.life != busy && s.life < closing && s.call.state == callIdle && !s.call.taking {
		s.close()
	}
}

// Wait has the session wait for a wake-up.
func (s *Session) Wait() {
	s.move(waiting)
	s.Take(waits)
}

// EndWait ends that.
func (s *Session) EndWait() {
	s.move(ready)
	s.Leave(waits)
}

// close lets the client go: its connection, then what it holds.
func (s *Session) close() {
	l := s.loop
	s.move(closing)
	s.Flush()
	s.Uncork()
	s.dropReplies()
	s.EndBody()
	s.dropInput()
	s.closeConn()
	// A client that is woken by a job given back finds all of them given back: the
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
		if p, ok := s.conn.(Parter); ok {
			p.Part()
			return
		}
	}
	s.conn.Close()
}

// Gone ends the session. Only now do statistics stop counting it: who sees one connection
// less also sees its jobs ready again.
func (s *Session) Gone() {
	s.move(gone)
	for _, r := range [...]Roles{Producer, Worker, Sleeper, waits} {
		s.Leave(r)
	}
	l := s.loop
	l.counts.fronts[s.front].open.Add(-1)
	l.roll.remove(s)
	l.toldOfEnd(s)
}

// LogValue implements slog.LogValuer: a session stands in the log, as conn, for its
// client's address. It is called only for a line that is written.
func (s *Session) LogValue() slog.Value { return slog.StringValue(PeerName(PeerOf(s.conn))) }

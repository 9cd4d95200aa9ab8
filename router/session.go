package router

import (
	"github.com/valyala/bytebufferpool"

	"polystalk/codec/beanstalk"
	"polystalk/shard"
)

// Limits of one connection.
const (
	// heldMax bytes of commands are kept while a session cannot go on (its
	// reserve waits, its replies are not read, its shard is busy). Then its
	// connection is paused until a quarter of that is left.
	heldMax = 1 << 20
	// unsentMax bytes of replies that the socket did not take stop the
	// session until they are gone.
	unsentMax = 1 << 20
	// flushAt bytes of replies are written at once, so that one turn's output
	// stays in the processor's cache.
	flushAt = 256 << 10
	// turnBudget bounds the work of one turn, in units of about a plain
	// command; what is left waits until the other connections had theirs.
	turnBudget = 4096
	// budgetBytes of replies cost as much as a command.
	budgetBytes = 1 << 10
)

// A Conn is what a session needs of its connection. Only the session's loop
// calls it.
type Conn interface {
	// Write sends p and keeps a copy of what the socket does not take.
	Write(p []byte)
	// WriteStable is Write for bytes that never change; they may be kept.
	WriteStable(p []byte)
	// Unsent is the number of bytes kept. Once it falls to zero the session's
	// drained is called.
	Unsent() int
	// Close closes the connection after what is unsent, Drop at once. The
	// session is not told.
	Close()
	Drop()
	// Pause stops the session's input until Resume. Pause is called during
	// Input only, Resume never. Both report false when that cannot be done:
	// the session then drops the connection.
	Pause() bool
	Resume() bool
}

type phase uint8

const (
	phaseIdle     phase = iota // parses commands
	phaseSkipLine              // discards an over-long line
	phaseSkipBody              // discards the body of a job that is too big
	phaseBody                  // collects the body of a put
	phaseBusy                  // an operation is under way in a shard
	phaseWaiting               // a reserve waits
	phaseClosing               // gives back what it has; no more input or output
	phaseGone
)

// A session is one client: its used tube, its watch list, its place in the
// protocol. It belongs to one event loop and is touched only there. One
// operation is under way at a time, so replies come in order by themselves;
// input that arrives meanwhile is held.
type session struct {
	loop  *loop
	conn  Conn
	phase phase
	step  step

	eof      bool // the client sends no more; answer what is here, then close
	dying    bool // close as soon as the operation under way is back
	stalled  bool // replies are not being read
	paused   bool // the connection brings no input
	ending   bool // … and is not to be paused again
	queued   bool // on the loop's list of sessions that go on in a later turn
	pending  bool // req holds an operation that is to be run on shard target
	deferred bool // … in a later turn
	producer bool
	worker   bool

	in    *bytebufferpool.ByteBuffer // held input, from inAt on
	inAt  int
	large shard.Large // body to send after out, once the shard is released

	cmd    beanstalk.Command // its Name is good while the command is dispatched
	got    int               // bytes of the put being read, of its body and \r\n
	pooled *bytebufferpool.ByteBuffer
	pieces shard.Large
	tail   [2]byte // what follows a body in pieces
	skip   int     // bytes of body still to discard
	putID  shard.JobID

	used    tubeRef
	watched []watchRef
	byName  map[string]int // positions in watched, once that is long
	bare    int            // entries of watched without a mirror
	links   []link
	byShard []int32 // links by shard plus one, once links is long

	target int // shard of req
	req    shard.Message
	waiter shard.Waiter
	res    reserving
	gather gathering
}

// tubeRef names a tube in its shard.
type tubeRef struct {
	name  string
	shard int
	id    shard.TubeID
}

// watchRef is one entry of a watch list. mirror is nil while all of the list
// is in one shard.
type watchRef struct {
	tubeRef
	mirror *shard.Mirror
}

// link is the session as one shard knows it.
type link struct {
	shard    int
	client   shard.ClientID
	watching int    // entries of the watch list there
	held     uint32 // reserved jobs there, as last heard: too high when one ran out
	waiting  bool   // registered there by the reserve under way
}

// linkTo returns the session's link to a shard, nil when it has none.
func (s *session) linkTo(sh int) *link {
	if s.byShard != nil {
		if i := s.byShard[sh]; i > 0 {
			return &s.links[i-1]
		}
		return nil
	}
	for i := range s.links {
		if s.links[i].shard == sh {
			return &s.links[i]
		}
	}
	return nil
}

// linkScan is the number of links up to which walking them is cheapest.
const linkScan = 8

// clientAt is the session's handle in a shard, zero when it has none.
func (s *session) clientAt(sh int) shard.ClientID {
	if l := s.linkTo(sh); l != nil {
		return l.client
	}
	return 0
}

// learn notes what a reply from shard sh tells about the session there.
func (s *session) learn(sh int, r *shard.Reply) *link {
	if r.Client == 0 {
		return nil
	}
	l := s.linkTo(sh)
	if l == nil {
		s.links = append(s.links, link{shard: sh, client: r.Client})
		n := len(s.links)
		l = &s.links[n-1]
		if s.byShard != nil {
			s.byShard[sh] = int32(n)
		} else if n > linkScan {
			s.byShard = make([]int32, len(s.loop.srv.shards))
			for i := range s.links {
				s.byShard[s.links[i].shard] = int32(i + 1)
			}
		}
	}
	l.held = r.Held
	return l
}

// Input takes bytes from the connection; they are the caller's again when it
// returns.
func (s *session) input(b []byte) {
	if s.phase >= phaseClosing || s.dying {
		return
	}
	if s.in != nil {
		s.hold(b)
		s.resume()
	} else if n := s.process(b); s.phase < phaseClosing {
		s.hold(b[n:])
	}
	s.bound()
	s.settle()
}

// hold keeps input that cannot be used yet.
func (s *session) hold(b []byte) {
	if len(b) == 0 {
		return
	}
	if s.in == nil {
		s.in = bytebufferpool.Get()
		s.inAt = 0
	}
	s.in.B = append(s.in.B, b...)
}

// bound pauses the connection when too much is held, after all that could be
// used of it was.
func (s *session) bound() {
	if s.held() > s.loop.srv.heldMax && !s.paused && !s.ending && !s.dying {
		if s.paused = s.conn.Pause(); !s.paused {
			s.loop.srv.complain("closing a connection that sends on without waiting for its replies",
				"held", s.held(), "unsent", s.conn.Unsent())
			s.abort()
		}
	}
}

// held is the number of bytes that wait to be parsed.
func (s *session) held() int {
	if s.in == nil {
		return 0
	}
	return len(s.in.B) - s.inAt
}

// resume goes on with held input.
func (s *session) resume() {
	if s.in == nil || s.phase >= phaseClosing {
		return
	}
	s.inAt += s.process(s.in.B[s.inAt:])
	switch {
	case s.in == nil: // closed meanwhile
	case s.inAt == len(s.in.B):
		s.dropInput()
	case s.inAt > s.loop.srv.heldMax/4:
		n := copy(s.in.B, s.in.B[s.inAt:])
		s.in.B = s.in.B[:n]
		s.inAt = 0
	}
}

func (s *session) dropInput() {
	if s.in != nil {
		bytebufferpool.Put(s.in)
		s.in = nil
		s.inAt = 0
	}
}

// process runs the commands at the front of b and returns how many bytes it
// used. It stops at an incomplete command, when the session cannot go on, and
// when the turn's budget is spent.
func (s *session) process(b []byte) (n int) {
	for n < len(b) {
		if s.stalled {
			return n
		}
		switch s.phase {
		case phaseIdle:
			if s.loop.budget <= 0 {
				s.loop.later(s)
				return n
			}
			used, more := s.command(b[n:])
			n += used
			if !more {
				return n
			}
		case phaseSkipLine:
			used, done := beanstalk.SkipLine(b[n:])
			n += used
			if done {
				s.phase = phaseIdle
				s.say(beanstalk.MsgBadFormat)
			} else if used == 0 {
				return n
			}
		case phaseSkipBody:
			used := min(s.skip, len(b)-n)
			n += used
			s.skip -= used
			if s.skip == 0 {
				s.phase = phaseIdle
				s.say(beanstalk.MsgJobTooBig)
			}
		case phaseBody:
			n += s.collect(b[n:])
		default:
			return n
		}
		s.loop.flushFull(s)
	}
	return n
}

// command parses and dispatches one command. more is false when b holds only
// a beginning.
func (s *session) command(b []byte) (n int, more bool) {
	n, err := beanstalk.Parse(&s.cmd, b)
	switch err {
	case nil:
		if n == 0 {
			return 0, false
		}
		s.loop.budget--
		return n + s.dispatch(b[n:]), true
	case beanstalk.ErrLineTooLong:
		s.phase = phaseSkipLine
	case beanstalk.ErrUnknownCommand:
		s.say(beanstalk.MsgUnknownCommand)
	default:
		if s.cmd.Kind != beanstalk.Unknown {
			s.loop.count(s.cmd.Kind) // Parse says when a bad line still counts
		}
		s.say(beanstalk.MsgBadFormat)
	}
	s.loop.budget--
	return n, true
}

// say answers with a fixed reply.
func (s *session) say(msg string) { s.loop.out = append(s.loop.out, msg...) }

// submit has the operation in req run on shard sh; handle gets its reply.
func (s *session) submit(sh int, st step) {
	s.target = sh
	s.step = st
	s.pending = true
}

// submitLater is submit for a further part of bounded work: the loop's other
// connections come first.
func (s *session) submitLater(st step) {
	s.step = st
	s.deferred = true
	if s.phase < phaseClosing {
		s.phase = phaseBusy
	}
	s.loop.later(s)
}

// again is the session's turn after later.
func (s *session) again() {
	if s.deferred {
		s.deferred = false
		s.pending = true
		if s.phase == phaseBusy {
			s.phase = phaseIdle
		}
	}
	s.goOn()
}

// advance runs what was submitted, step by step, until the command is done
// or a shard is busy. Then its message is left there, and completed goes on.
func (s *session) advance() {
	l := s.loop
	for s.pending {
		s.pending = false
		sh := l.srv.shards[s.target]
		if !sh.Own(&l.batch) {
			s.req.Keep()
			if s.phase < phaseClosing {
				s.phase = phaseBusy
			}
			l.unfinished.Add(1)
			sh.Send(&l.batch, &s.req)
			return
		}
		sh.Apply(&l.batch, &s.req.Op, &s.req.Reply)
		// The reply's body is copied out under ownership; a next step is only
		// noted, since it must not run while a shard is owned.
		s.handle(&s.req.Reply)
		sh.Release(&l.batch)
		if s.large != nil {
			s.sendLarge()
		}
	}
}

// sendLarge sends a body too large to be copied, which handle left here.
func (s *session) sendLarge() {
	s.loop.flush(s)
	for _, p := range s.large {
		s.conn.WriteStable(p)
	}
	s.large = nil
	s.say("\r\n")
}

// completed takes back a message that went through a shard's inbox, or the
// wake-up of a waiting reserve.
func (s *session) completed(m *shard.Message) {
	if m == &s.waiter.Msg {
		s.woken()
	} else {
		s.loop.unfinished.Add(-1)
		if s.phase == phaseBusy {
			s.phase = phaseIdle
		}
		s.handle(&m.Reply)
		m.Done()
	}
	if s.large != nil {
		s.sendLarge()
	}
	s.goOn()
}

// goOn continues after an operation came back, or in a later turn.
func (s *session) goOn() {
	s.advance()
	switch {
	case s.phase == phaseWaiting && s.dying:
		s.close()
	case s.phase >= phaseBusy:
	case s.dying:
		s.close()
	default:
		s.resume()
		s.settle()
	}
}

// settle ends a turn of the session: a paused connection is read again, and a
// client that sends no more is let go once everything it sent is answered.
func (s *session) settle() {
	if s.phase >= phaseBusy || s.stalled || s.queued || s.dying {
		return
	}
	if s.paused && s.held() <= s.loop.srv.heldMax/4 {
		if s.conn.Unsent() > 0 {
			s.stalled = true // until drained is called
			return
		}
		if s.paused = !s.conn.Resume(); s.paused {
			s.abort()
			return
		}
	}
	if s.eof {
		s.close()
	}
}

// drained is called when the connection has sent everything.
func (s *session) drained() {
	if !s.stalled {
		return
	}
	s.stalled = false
	if s.phase < phaseBusy {
		s.resume()
	}
	s.settle()
}

// lastInput: the client of a paused connection sends no more, so there is an
// end to what can still come. It is read whatever is held, since that is how
// the end is noticed.
func (s *session) lastInput() {
	if !s.paused || s.phase >= phaseClosing || s.dying {
		return
	}
	s.ending = true
	if s.paused = !s.conn.Resume(); s.paused {
		s.abort()
	}
}

// endOfInput is a half-close: what was sent is answered, then the connection
// is closed. A waiting reserve times out.
func (s *session) endOfInput() {
	if s.phase >= phaseClosing {
		return
	}
	s.eof = true
	if s.phase == phaseWaiting {
		s.giveUp()
		s.advance()
		if s.phase < phaseBusy {
			s.resume()
		}
	}
	s.settle()
}

// abort ends the session without answering any more. An operation under way
// comes back first: what it did must be known to be undone.
func (s *session) abort() {
	s.dying = true
	if s.phase != phaseBusy && s.phase < phaseClosing && !s.pending {
		s.close()
	}
}

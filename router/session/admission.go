package session

import (
	"slices"
	"sync"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// Admission decides whether a command may run now. A session parses no command while one
// of Stops is set. After a command is parsed, and before it changes anything, the protocol
// calls Admit. Collect repeats the decision for each part of a body, and Readmit for a
// foreground job that must now be recorded (see Unadmitted).
//
//	reason       is set by                              is lifted by
//	Unread       checkUnsent (output.go): the socket    AllSent: the socket has taken
//	             has not taken more than unsentCap;     everything
//	             settle: it has not taken everything
//	             when a pause could end
//	Uncommitted  gateReply (output.go): more than       openReplies (output.go): at most
//	             unsentCap waits for commits            half of unsentCap waits
//	NoSpace      Admit, Collect, Readmit: the log has   openRoom: the log may have room,
//	             no room now                            or never will
//	NoPlace      Admit: other large bodies are being    letIn: freePlace of another session
//	             received
//	Throttled    Admit: the client's identity puts      a timer, when the identity's rate allows
//	             faster than its quota                  the put; a reload; the client's FIN
//
//	refusal      applies to
//	Draining     a Need that Submits, while the server drains (Gearman; a put is refused behind its body)
//	DiskFull     a Need that Records, when the disk is full and no room can be made
//	TooFast      a Need that Puts, when it would be Throttled for more than access.WaitMax
//
// The time of a turn is not a reason: a session without time is queued (MayParse). Nor is
// memory: above its limits the loop stops reading, and then closes the largest holders
// (accounting.go).
//
// A new reason needs a constant below, a row above, and a call of lift.

// Stops are reasons not to parse commands.
type Stops uint8

// The reasons.
const (
	Unread      Stops = 1 << iota // the client does not read its replies
	Uncommitted                   // too many replies wait for commits
	NoSpace                       // the next command, or part of a body, waits for room on the disk
	NoPlace                       // the next command's large body waits for a place
	Throttled                     // the next put waits for its identity's rate
)

// A verdict says what the protocol must do with a command.
type verdict uint8

const (
	Run    verdict = iota // continue
	Wait                  // return: the session was stopped, and will parse the command again
	Refuse                // reply with the Reason, and skip the body
)

// A Reason says why a command is refused.
type Reason uint8

// The reasons for refusals.
const (
	Draining Reason = iota + 1
	DiskFull
	TooFast
)

// A Need lists what a command needs besides a turn.
type Need struct {
	Records  bool // space in the log
	Optional bool // if the disk is full, the command runs without being recorded
	Submits  bool // a server that accepts jobs
	Puts     bool // a put of its client's rate, if that is limited
	Body     int  // bytes of the body that follows; above slab.MaxSize it waits for a place
}

// Admit decides whether the parsed command may run now.
func (s *Session) Admit(n Need) (verdict, Reason) {
	if n.Puts && s.access != nil {
		return s.admitPut(n)
	}
	h := s.loop.host
	if n.Submits && h.Draining.Load() {
		return s.refuse(Draining)
	}
	if n.Records && h.Journal != nil {
		switch p := s.askRoom(n.Body); {
		case p == commit.Wait:
			s.block()
			return Wait, 0
		case p == commit.Full && !n.Optional:
			return s.refuse(DiskFull)
		}
	}
	if n.Body > slab.MaxSize {
		return s.claimPlace(n.Body), 0
	}
	if s.body.listed {
		s.freePlace() // a setting has changed while the command waited for its place
	}
	return Run, 0
}

// admitPut is Admit for a put of a client with an identity.
func (s *Session) admitPut(n Need) (verdict, Reason) {
	if !s.body.paid {
		switch s.pay() {
		case Wait:
			return Wait, 0
		case Refuse:
			return s.refuse(TooFast)
		}
	}
	n.Puts = false
	v, why := s.Admit(n)
	if v == Refuse {
		s.refund()
	}
	s.body.paid = s.body.paid && v == Wait
	return v, why
}

func (s *Session) refuse(why Reason) (verdict, Reason) {
	s.freePlace()
	return Refuse, why
}

// lift removes a reason to stop, and continues the session.
func (s *Session) lift(r Stops) {
	s.stops &^= r
	s.deferredAgain()
	s.Go()
}

// AllSent is called when the connection has sent everything.
func (s *Session) AllSent() {
	s.listUsage()
	if s.stops&Unread != 0 {
		s.lift(Unread)
	}
}

// A room is the session's part of the log's space. A command in one piece checks the log's
// Pressure. A body that arrives in parts has a Claim that grows with the parts, so announcing a
// body reserves nothing. EndBody releases the claim.
type room struct {
	claim   commit.Claim
	joining int64  // bytes that a deferred operation waits for; see Unadmitted
	asked   uint64 // value of Notified before the last request of the claim
	byClaim bool   // the session waits for its claim, not for Pressure alone
}

// askRoom asks whether the log has room for a command with a body of size bytes.
func (s *Session) askRoom(size int) commit.Pressure {
	j, r := s.loop.host.Journal, &s.room
	if size <= slab.MaxSize {
		r.byClaim = false
		return j.Pressure()
	}
	r.asked = j.Notified()
	p := j.Fits(&r.claim, int64(size))
	r.byClaim = p == commit.Wait
	if p == commit.Full {
		s.loop.host.Complain("refused a job: the disk has no room for its body", "conn", s, "bytes", size)
	}
	return p
}

// claimRoom raises the session's claim to bytes.
func (s *Session) claimRoom(bytes int64) commit.Pressure {
	j, r := s.loop.host.Journal, &s.room
	r.asked = j.Notified()
	p := j.Claim(&r.claim, bytes)
	r.byClaim = p == commit.Wait
	return p
}

const (
	// stepMax bounds the bytes that are claimed beyond the received ones.
	stepMax = 1 << 20
	// HeadMax bounds the bytes of a job in the journal, without its body and names.
	HeadMax = 256
)

// admitPart decides whether n more bytes of the body may be received. size is the size of
// the whole body; both include the names that are recorded with it.
func (s *Session) admitPart(n, size int) verdict {
	need := int64(int(s.body.got) + n + HeadMax)
	if need <= s.room.claim.Bytes() {
		return Run
	}
	switch s.claimRoom(min(need+min(need, stepMax), int64(size+HeadMax))) {
	case commit.Wait:
		s.block()
		return Wait
	case commit.Full:
		if size > slab.MaxSize+HeadMax {
			s.loop.host.Complain("refused a job while its body arrived: the disk is full", "conn", s, "bytes", size, "received", s.body.got)
		}
		return Refuse
	}
	return Run
}

// Unadmitted reports whether the operation returned undone because the log has no room for the
// body of a foreground job that it must record. Then the operation is deferred until there is
// room, and Next must call Readmit. Replied calls Unadmitted.
func (s *Session) Unadmitted(r *core.Reply) bool {
	op := s.Op()
	own := s.room.claim.Bytes() - int64(op.Admitted) // for its own body, if it has one
	op.Admitted = 0
	if r.Status != core.StatusUnadmitted {
		return false
	}
	s.call.msg.Keep() // the input goes on
	op.Admitted = r.N
	s.room.joining = own + int64(r.N)
	s.Later(PartUnits, NoSpace)
	return true
}

// Readmit decides about an operation that was Unadmitted. Run: visit the same shard again.
// Wait: it was deferred again. Refuse: it was dropped with its body, because there is no room or
// it is not permitted any more; the protocol must reply, unless the session is Broken.
func (s *Session) Readmit(permitted bool) verdict {
	p := commit.Full
	if s.end != broken && permitted {
		p = s.claimRoom(s.room.joining)
	}
	if p == commit.Wait {
		s.block()
		s.Later(0, NoSpace)
		return Wait
	}
	s.room.joining = 0
	if p == commit.Full {
		s.EndBody()
		s.call.msg.Op.Admitted = 0
		s.call.msg.Done()
		return Refuse
	}
	return Run
}

// block stops the session until the log may have room.
func (s *Session) block() {
	l := s.loop
	s.stops |= NoSpace
	l.gate.room = append(l.gate.room, s)
	l.gate.waiting.Add(1)
	if s.mayAsk() {
		l.lookAtGate() // the log has notified before s was on the list
	}
}

// mayAsk reports whether a blocked session may try its command again. The log's answer to a
// claim cannot change before it notifies.
func (s *Session) mayAsk() bool {
	j := s.loop.host.Journal
	return j.Pressure() != commit.Wait && !(s.room.byClaim && j.Notified() == s.room.asked)
}

// openRoom lets blocked sessions try again when the log may have room for them.
func (l *Loop) openRoom() {
	g := &l.gate
	waiting := g.room
	g.room = nil
	for _, s := range waiting {
		switch {
		case s.life >= closing:
			g.waiting.Add(-1)
		case s.mayAsk():
			g.waiting.Add(-1)
			l.turn(s, func(s *Session) { s.lift(NoSpace) })
		default:
			g.room = append(g.room, s)
		}
	}
}

// bodyPlaces limits the large bodies that are received at the same time to a part of the
// account, in the order in which they are announced. So producers of large bodies wait for one
// another instead of being evicted. A body larger than the whole part is admitted alone.
type bodyPlaces struct {
	mu      sync.Mutex
	most    int64 // bytes
	used    int64 // announced bytes of the bodies in inside
	inside  map[*Session]bodyStay
	waiting []bodyWait // oldest first
}

type bodyStay struct {
	size  int64
	until core.Time // when it should be complete
}

type bodyWait struct {
	s    *Session
	size int64
}

// While other bodies wait, an admitted body must arrive within BodyGrace plus a second for
// every bodyRate bytes.
const (
	BodyGrace = 10 * core.Second
	bodyRate  = 1 << 20
)

// admit moves waiting bodies inside while they fit, and returns their sessions. The caller
// holds b.mu.
func (b *bodyPlaces) admit(now core.Time) (admitted []*Session) {
	for _, w := range b.waiting {
		if b.used > 0 && b.used+w.size > b.most {
			break
		}
		b.used += w.size
		b.inside[w.s] = bodyStay{w.size, now + BodyGrace + core.Time(w.size/bodyRate)*core.Second}
		admitted = append(admitted, w.s)
	}
	b.waiting = slices.Delete(b.waiting, 0, len(admitted))
	return admitted
}

// claimPlace gives the session's large body a place, or stops the session until one is free.
// The body keeps its place, or its position in the queue, until freePlace.
func (s *Session) claimPlace(size int) verdict {
	b := &s.loop.host.bodies
	s.body.listed = true
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.inside[s]; ok {
		return Run
	}
	if !slices.ContainsFunc(b.waiting, func(w bodyWait) bool { return w.s == s }) {
		b.waiting = append(b.waiting, bodyWait{s, int64(size)})
	}
	// Bodies that waited longer were admitted when a place became free.
	switch admitted := b.admit(s.loop.awake()); {
	case len(admitted) == 0:
		s.stops |= NoPlace
		return Wait
	case len(admitted) > 1 || admitted[0] != s:
		s.impossible("lets others in")
	}
	return Run
}

// freePlace releases the place of the session's body, or ends its wait for one.
func (s *Session) freePlace() {
	if !s.body.listed {
		return
	}
	s.body.listed = false
	b := &s.loop.host.bodies
	b.mu.Lock()
	if stay, ok := b.inside[s]; ok {
		b.used -= stay.size
		delete(b.inside, s)
	} else {
		b.waiting = slices.DeleteFunc(b.waiting, func(w bodyWait) bool { return w.s == s })
	}
	admitted := b.admit(s.loop.awake())
	b.mu.Unlock()
	letIn(admitted)
}

// letIn continues sessions after their bodies were given a place.
func letIn(admitted []*Session) {
	for _, a := range admitted {
		a.loop.Signal(a, func(a *Session) {
			if a.life < closing && a.stops&NoPlace != 0 {
				a.lift(NoPlace)
			}
		})
	}
}

// LimitBodies bounds the large bodies that are received at the same time, in bytes. A single
// body may exceed the bound.
func (h *Host) LimitBodies(most int64) {
	b := &h.bodies
	b.mu.Lock()
	b.most = most
	admitted := b.admit(h.Clock.Awake())
	b.mu.Unlock()
	letIn(admitted)
}

// BodyPlaces returns the bytes and the number of large bodies with a place, and the number of
// sessions that wait for one.
func (h *Host) BodyPlaces() (used int64, inside, waiting int) {
	b := &h.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, len(b.inside), len(b.waiting)
}

// late lists the sessions with bodies that are overdue while other bodies wait.
func (b *bodyPlaces) late(now core.Time) (late []*Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	for s, stay := range b.inside {
		if stay.until < now {
			late = append(late, s)
		}
	}
	return late
}

// EvictLate closes connections with overdue large bodies while others wait. It checks each
// again in its turn, because the body may have arrived meanwhile. A session stopped by NoSpace
// is spared, because it cannot receive.
func (h *Host) EvictLate() {
	for _, s := range h.bodies.late(h.Clock.Awake()) {
		s.loop.Signal(s, func(s *Session) {
			if s.life < closing && s.stops&NoSpace == 0 && slices.Contains(h.bodies.late(h.Clock.Awake()), s) {
				h.Complain("closing a connection: the body of its job is late, and other connections wait", "conn", s, "received", s.body.got)
				s.Abort()
			}
		})
	}
}

package router

import (
	"time"

	"polystalk/codec/gearman"
	"polystalk/router/memory"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// A gearSession is what a session has besides when its connection speaks Gearman.
// The session itself does what both protocols need: it holds input and replies,
// has one operation under way, and ends. So a connection of either kind is the
// same to the loops, and beanstalkd's sessions carry one pointer more.
//
// A connection may be client, worker and administrator at once. What it is told
// between answers, reports about its jobs and NOOP, comes as mail
// (gearmanmail.go).
type gearSession struct {
	s    *session
	m    gearman.Message
	keep []byte          // arguments that outlive the input
	op   core.FunctionOp // of the operation under way
	mail core.Mail

	abilities  abilities
	sleeping   bool // counted among the sleepers of each ability
	exceptions bool
	refused    bool       // it is closed for what its client says
	early      earlyMail  // came while a submission or a list was under way
	excepted   core.JobID // the last job that it ended with an exception
	entry      *gearEntry // what others may see of it
	late       lateness

	at   int // the shard asked last, of commands that ask all
	list gearList
}

// GearmanConfig says how Gearman is spoken. The zero value of a field is its
// default.
type GearmanConfig struct {
	// Prefix begins every job handle; default "H:" and the host's name.
	Prefix string
	// MaxBody is the largest body of a packet in bytes; default 64 MiB.
	MaxBody uint32
	// MaxUnread bytes are kept for a client that does not read what the workers of
	// its jobs say; then it is cut off, and its jobs go on. Default twice MaxBody:
	// whoever reads must not be cut off for one large result behind another.
	MaxUnread int
	// Retries is how often a job may lose its worker before it fails; zero: any
	// number of times. Wakeup is how many sleeping workers are told of a job; zero:
	// all. BuryFailed keeps failed background jobs, buried.
	Retries    uint32
	Wakeup     int
	BuryFailed bool
	// Exceptions switches the option of that name on for every connection.
	Exceptions bool
	// Shutdown says from where the command of that name is taken.
	Shutdown ShutdownFrom
	// Version is what the command of that name answers; default 2.0.0.
	Version string
	// Verbose is the level of the log in gearmand's words, which the command of that
	// name answers; default INFO.
	Verbose string
}

// ShutdownFrom says whose shutdown command is obeyed.
type ShutdownFrom int

// Whose shutdown is obeyed: that of this machine, of anyone, of nobody.
const (
	ShutdownLocal ShutdownFrom = iota
	ShutdownAny
	ShutdownNone
)

// newGear makes s a session that speaks Gearman.
func newGear(s *session) *gearSession {
	g := &gearSession{s: s, exceptions: s.loop.srv.cfg.Gearman.Exceptions}
	g.mail.Msg.Home, g.mail.Msg.Owner = s.loop, s
	g.op.Mail = &g.mail
	s.req.Op.Function = &g.op
	g.entry = s.loop.srv.gearDir.add(s.conn)
	return g
}

// process is session.process for Gearman.
func (g *gearSession) process(b []byte) (n int) {
	s := g.s
	for n < len(b) {
		if s.stalled || s.backed || s.blocked {
			return n
		}
		if s.leaving {
			return len(b)
		}
		switch s.phase {
		case phaseIdle:
			if s.skip > 0 {
				s.phase = phaseSkipBody
				continue
			}
			if s.loop.round.budget <= 0 && !s.loop.more() {
				s.loop.later(s)
				return n
			}
			used, more := g.command(b[n:])
			n += used
			if !more {
				return n
			}
		case phaseSkipBody:
			used := min(s.skip, len(b)-n)
			n += used
			if s.skip -= used; s.skip == 0 {
				s.phase = phaseIdle
			}
		case phaseBody:
			n += g.collect(b[n:])
		default:
			return n
		}
		s.loop.flushFull(s)
	}
	return n
}

// command takes one message from the front of b. more is false when b holds only
// a beginning.
func (g *gearSession) command(b []byte) (n int, more bool) {
	s, m := g.s, &g.m
	n, fault := gearman.Parse(m, b, s.loop.srv.cfg.Gearman.MaxBody)
	if n == 0 {
		if s.opening.takePart(s, b) {
			return len(b), true
		}
		return 0, false
	}
	if !s.opening.over && s.opening.take(s, b[:n], m.Type == gearman.Text, false) {
		return n, true
	}
	if fault != nil {
		s.loop.round.budget--
		s.loop.out = fault.AppendReply(s.loop.out, m)
		g.refused = fault.Close
		if s.leaving = fault.Close; !s.leaving {
			g.skip(m.Size)
		}
		return n, true
	}
	if s.loop.srv.draining.Load() {
		if _, _, submits := m.Type.Submits(); submits {
			s.loop.round.budget--
			s.loop.gear.count(m)
			s.loop.out = gearman.AppendError(s.loop.out, gearman.ErrorDraining)
			if s.kept.large {
				s.leaveBodyRoom()
			}
			g.skip(m.Size)
			return n, true
		}
	}
	switch g.room() {
	case commit.Wait:
		s.block()
		return 0, false
	case commit.Full:
		s.loop.round.budget--
		s.loop.gear.count(m)
		s.loop.out = gearman.AppendError(s.loop.out, gearman.ErrorQueue)
		if s.kept.large {
			s.leaveBodyRoom()
		}
		g.skip(m.Size)
		return n, true
	}
	size := m.Size
	if size > slab.MaxSize && m.Type.HasData() && s.crowded(size) {
		return 0, false
	}
	s.loop.round.budget--
	s.loop.gear.count(m)
	if !m.Type.HasData() {
		g.skip(size)
		g.run(nil, nil)
		return n, true
	}
	if size <= slab.MaxSize && len(b)-n >= size {
		g.run(b[n:n+size:n+size], nil)
		return n + size, true
	}
	g.keepArgs()
	s.phase = phaseBody
	s.got = 0
	if size <= slab.MaxSize {
		s.pooled = memory.TakeBuffer()
		s.pooled.B = s.pooled.B[:0]
		s.keep(cap(s.pooled.B))
	}
	return n, true
}

// skip throws away the next n bytes.
func (g *gearSession) skip(n int) {
	if n > 0 {
		g.s.skip = n
	}
}

// keepArgs copies the arguments out of the input: the data is not all there.
func (g *gearSession) keepArgs() {
	m := &g.m
	g.keep = g.keep[:0]
	for _, a := range m.Args[:m.N] {
		g.keep = append(g.keep, a...)
	}
	at := 0
	for i, a := range m.Args[:m.N] {
		m.Args[i] = g.keep[at : at+len(a) : at+len(a)]
		at += len(a)
	}
}

// collect takes what belongs to the data being read, and returns how much that
// was: nothing when there is no room for it.
func (g *gearSession) collect(b []byte) (n int) {
	s, size := g.s, g.m.Size
	n = min(len(b), size-s.got)
	if g.recorded() {
		switch s.keepsRoom(n+len(g.keep), size+len(g.keep)) {
		case commit.Wait:
			s.block()
			return 0
		case commit.Full:
			g.refuseBody()
			return 0
		}
	}
	if s.pooled != nil {
		s.pool(b[:n])
	} else {
		s.collectLarge(b[:n], size)
	}
	if s.got += n; s.got < size {
		return n
	}
	s.phase = phaseIdle
	if s.pooled != nil {
		g.run(s.pooled.B, nil)
	} else {
		g.run(nil, s.pieces)
	}
	return n
}

// run does what the message asks for; its data is in body or large.
func (g *gearSession) run(body []byte, large core.Large) {
	s, m := g.s, &g.m
	g.late.seen()
	switch m.Type {
	case gearman.Text:
		g.admin()
	case gearman.EchoReq:
		s.loop.out = gearman.AppendEchoHead(s.loop.out, m.Size)
		if large != nil {
			g.writeShared(nil, large) // no job has it
		} else {
			g.write(body, nil)
		}
		s.endBody()
	case gearman.CanDo:
		g.register(0)
	case gearman.CanDoTimeout:
		g.register(core.Time(m.Timeout))
	case gearman.CantDo:
		if i := g.abilities.find(m.Args[0]); i >= 0 {
			g.unregister(i)
		}
	case gearman.ResetAbilities:
		g.reset()
	case gearman.PreSleep:
		g.preSleep()
	case gearman.GrabJob, gearman.GrabJobUniq, gearman.GrabJobAll:
		g.grab()
	case gearman.WorkStatus, gearman.WorkComplete, gearman.WorkFail,
		gearman.WorkException, gearman.WorkData, gearman.WorkWarning:
		g.report(body, large)
	case gearman.GetStatus:
		g.getStatus()
	case gearman.GetStatusUnique:
		g.getStatusUnique()
	case gearman.OptionReq:
		if !gearman.IsExceptions(m.Args[0]) {
			s.loop.out = gearman.AppendError(s.loop.out, gearman.ErrorUnknownOption)
			return
		}
		g.exceptions = true
		s.loop.out = gearman.AppendReply(s.loop.out, gearman.OptionRes, m.Args[0])
	case gearman.SetClientID:
		s.loop.srv.gearDir.setID(g.entry, m.Args[0])
	default:
		g.submit(body, large)
	}
	s.advance()
}

// write sends data behind the head that was appended to the output. No shard is
// owned.
func (g *gearSession) write(body []byte, large core.Large) {
	l := g.s.loop
	l.out = append(l.out, body...)
	if large != nil {
		g.s.large = large
		g.s.sendLarge()
	}
}

// submit submits a job.
func (g *gearSession) submit(body []byte, large core.Large) {
	s, m, op := g.s, &g.m, &g.s.req.Op
	priority, background, _ := m.Type.Submits()
	g.op.Background = background
	g.op.ByBody = string(m.Args[1]) == "-"
	g.op.SetUnique(m.Args[1])
	g.op.SetReducer(m.Reducer())
	g.op.Due = 0
	switch m.Type {
	case gearman.SubmitJobEpoch:
		g.op.Due = s.loop.batch.FromDay(core.Time(min(max(m.Epoch, 0), epochMax)) * core.Second)
	case gearman.SubmitJobSched:
		s.loop.round.budget -= scheduleCost
		now := time.Unix(0, int64(s.loop.batch.Day()))
		at, ok := m.Schedule.Next(now)
		if !ok {
			s.loop.out = gearman.AppendError(s.loop.out, gearman.ErrorSchedule)
			s.endBody()
			return
		}
		g.op.Due = s.loop.batch.FromDay(core.Time(at.UnixNano()))
	}
	if !s.producer {
		s.producer = true
		s.loop.producers.Add(1)
	}
	sh := s.loop.srv.places.OfTube(m.Args[0])
	g.op.Numbers = s.loop.srv.places.Numbers(sh)
	op.Kind, op.Client, op.Name = core.OpSubmit, s.clientAt(sh), m.Args[0]
	op.Pri, op.Body, op.Large = priority.Pri(), body, large
	s.submit(sh, stepGearSubmit)
}

// scheduleCost is what looking for the minute of a schedule counts in a turn.
const scheduleCost = 64

// epochMax is the last second that fits a core.Time.
const epochMax = int64(core.Never/core.Second) - 1

func (g *gearSession) submitted(r *core.Reply) {
	s := g.s
	if s.unadmitted(r) {
		return
	}
	s.req.Op.Name, s.req.Op.Body, s.req.Op.Large = nil, nil, nil
	s.endBody()
	g.hearNoop() // before the answer: the job may have woken this very connection
	out := &s.loop.out
	switch r.Status {
	case core.StatusFull:
		*out = gearman.AppendError(*out, gearman.ErrorQueueFull)
	case core.StatusOutOfMemory:
		s.loop.srv.complain("out of memory for a job", "conn", s, "bytes", g.m.Size)
		*out = gearman.AppendError(*out, gearman.ErrorQueue)
	default:
		from := len(*out)
		*out = gearman.AppendJobCreated(*out, g.handleOf(r.ID))
		if !g.op.Background {
			g.late.created(s.loop, from)
		}
	}
	s.reprobe = g.early.first != nil
}

func (g *gearSession) handleOf(id core.JobID) gearman.Handle {
	return gearman.Handle{Prefix: g.s.loop.srv.cfg.Gearman.Prefix, ID: uint64(id)}
}

// find is the job of a handle and the shard in which it lives.
func (g *gearSession) find(handle []byte) (id core.JobID, sh int, ok bool) {
	srv := g.s.loop.srv
	n, ok := gearman.ParseHandle(srv.cfg.Gearman.Prefix, handle)
	if !ok {
		return 0, 0, false
	}
	sh, ok = srv.places.OfJob(core.JobID(n))
	return core.JobID(n), sh, ok
}

// handle takes the reply of the operation under way; see session.handle.
func (g *gearSession) handle(r *core.Reply) {
	s := g.s
	out := &s.loop.out
	switch s.step {
	case stepGearSubmit:
		g.submitted(r)
	case stepGearGrab:
		g.grabbed(r)
	case stepGearReport:
		g.reported(r)
	case stepGearRegister:
		g.registered(r)
	case stepGearUnregister, stepGearReset:
		g.unregistered(r)
	case stepGearStatus:
		*out = gearman.AppendStatus(*out, g.m.Args[0], g.jobStatus(r))
	case stepGearUnique:
		g.uniqueAnswered(r)
	case stepGearClose:
		g.closed(r)
	default:
		g.adminStep(r)
	}
}

// startClosing gives back what the session holds and waits for. Mail that is under
// way stays so: taken out now, it could be posted a second time.
func (g *gearSession) startClosing() {
	g.wake()
	g.takeEarly()
	g.s.loop.srv.gearDir.remove(g.entry)
	g.closeNext()
}

func (g *gearSession) closeNext() {
	s, op := g.s, &g.s.req.Op
	if len(s.links) == 0 {
		s.gone()
		return
	}
	l := &s.links[0]
	op.Kind, op.Client, op.Tube = core.OpClose, l.client, 0
	s.submit(l.shard, stepGearClose)
}

func (g *gearSession) closed(r *core.Reply) {
	s := g.s
	if r.Status == core.StatusMore {
		s.submitLater(stepGearClose)
		return
	}
	n := len(s.links) - 1
	s.links[0] = s.links[n]
	s.links = s.links[:n]
	s.byShard = nil
	g.closeNext()
}

package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// step says what the operation under way is part of, so that its reply is
// taken up where the command left off.
type step uint8

const (
	stepNone step = iota
	stepPut
	stepSimple   // the reply follows from the status alone
	stepDelete   // … and an id is finished
	stepPeek     // FOUND
	stepTake     // reserve-job
	stepKick     // kick, may ask again
	stepUse      // the new tube
	stepUnuse    // the old one, in another shard
	stepWatch    // the new entry
	stepMirror   // a further entry's published key
	stepIgnore   // the entry is gone
	stepPause    //
	stepStatsJob //
	stepStatsTube
	stepStats     // one shard's part
	stepReserve   // all in one shard
	stepProbe     // the shard with the best published key
	stepMargin    // DEADLINE_SOON? asked before TIMED_OUT
	stepRegister  // one of several shards to wait in
	stepCancel    // one of those that did not serve
	stepJoin      // the first operation of a session
	stepReturn    // closing: reserved jobs
	stepLeaveTube // closing: one watch list entry
	stepLeaveUsed // closing: the used tube
	stepClose     // closing: the client itself

	// Of a gearSession.
	stepGearSubmit     // JOB_CREATED
	stepGearRegister   // the new ability
	stepGearUnregister // one ability less
	stepGearReset      // those in one shard
	stepGearGrab       // JOB_ASSIGN
	stepGearReport     // an ERROR, or nothing
	stepGearStatus     // STATUS_RES
	stepGearUnique     // one shard's part of STATUS_RES_UNIQUE
	stepGearClose      // closing: the client in one shard
	stepGearOK         // an administrator's OK
	stepGearDrop       //
	stepGearCancel     //
	stepGearFunctions  // one shard's part of status
	stepGearJobs       // some of one shard's jobs
)

// dispatch runs the parsed command; rest is the input behind its line. It
// returns how many bytes of rest the command used.
func (s *session) dispatch(rest []byte) (n int) {
	cmd, op := &s.cmd, &s.req.Op
	s.loop.count(cmd.Kind)
	switch cmd.Kind {
	case beanstalk.Put:
		return s.put(rest)
	case beanstalk.Reserve:
		s.reserve(core.Never)
	case beanstalk.ReserveWithTimeout:
		s.reserve(core.Time(cmd.Timeout) * core.Second)
	case beanstalk.Delete:
		s.onJob(core.OpDelete, stepDelete, beanstalk.MsgNotFound)
	case beanstalk.Release:
		op.Pri, op.Delay = cmd.Pri, cmd.Delay
		s.onJob(core.OpRelease, stepSimple, beanstalk.MsgNotFound)
	case beanstalk.Bury:
		op.Pri = cmd.Pri
		s.onJob(core.OpBury, stepSimple, beanstalk.MsgNotFound)
	case beanstalk.Touch:
		s.onJob(core.OpTouch, stepSimple, beanstalk.MsgNotFound)
	case beanstalk.KickJob:
		s.onJob(core.OpKickJob, stepSimple, beanstalk.MsgNotFound)
	case beanstalk.Peek:
		s.onJob(core.OpPeek, stepPeek, beanstalk.MsgNotFound)
	case beanstalk.ReserveJob:
		op.Waiter = &s.waiter
		s.onJob(core.OpReserveJob, stepTake, beanstalk.MsgNotFound)
	case beanstalk.StatsJob:
		op.JobStats = new(core.JobStats)
		s.onJob(core.OpStatsJob, stepStatsJob, beanstalk.MsgNotFound)
	case beanstalk.PeekReady:
		s.onUsed(core.OpPeekReady, stepPeek)
	case beanstalk.PeekDelayed:
		s.onUsed(core.OpPeekDelayed, stepPeek)
	case beanstalk.PeekBuried:
		s.onUsed(core.OpPeekBuried, stepPeek)
	case beanstalk.Kick:
		s.gather.kicked = 0
		op.N, op.Kicked = cmd.Bound, core.KickUndecided
		s.onUsed(core.OpKick, stepKick)
	case beanstalk.Use:
		s.use()
	case beanstalk.Watch:
		s.watch()
	case beanstalk.Ignore:
		s.ignore()
	case beanstalk.PauseTube:
		op.Delay = cmd.Delay
		s.onTube(core.OpPause, stepPause)
	case beanstalk.StatsTube:
		op.TubeStats = new(core.TubeStats)
		s.onTube(core.OpStatsTube, stepStatsTube)
	case beanstalk.Stats:
		s.stats()
	case beanstalk.ListTubes:
		s.listTubes()
	case beanstalk.ListTubesWatched:
		s.listWatched()
	case beanstalk.ListTubeUsed:
		s.loop.out = beanstalk.AppendUsing(s.loop.out, s.used.Name)
	case beanstalk.Quit:
		s.loop.flush(s)
		if s.leaving = len(s.replies) > 0; !s.leaving {
			s.close()
		}
	}
	s.advance()
	return 0
}

// onJob submits an operation on the job that the command names.
func (s *session) onJob(kind core.OpKind, st step, missing string) {
	id := core.JobID(s.cmd.ID)
	sh, ok := s.loop.srv.places.OfJob(id)
	if !ok {
		s.say(missing)
		return
	}
	op := &s.req.Op
	op.Kind, op.ID, op.Client = kind, id, s.clientAt(sh)
	s.submit(sh, st)
}

// onUsed submits an operation on the used tube.
func (s *session) onUsed(kind core.OpKind, st step) {
	op := &s.req.Op
	op.Kind, op.Tube, op.Client = kind, s.used.ID, 0
	s.submit(s.used.Shard, st)
}

// onTube submits an operation on the tube that the command names.
func (s *session) onTube(kind core.OpKind, st step) {
	op := &s.req.Op
	op.Kind, op.Name, op.Client = kind, s.cmd.Name, 0
	s.submit(s.loop.srv.places.OfTube(s.cmd.Name), st)
}

// handle takes the reply of the operation under way. It may be called with
// the shard owned, so it only appends to the output and notes a next step.
func (s *session) handle(r *core.Reply) {
	l := s.learn(s.target, r)
	out := &s.loop.out
	switch s.step {
	case stepPut:
		s.putDone(r)
	case stepSimple:
		if s.unadmitted(r) {
			return
		}
		s.endBody()
		s.say(simpleReply(s.cmd.Kind, r.Status))
	case stepDelete:
		if r.Status == core.StatusOK {
			s.loop.ended.Finish(s.req.Op.ID)
		}
		s.say(simpleReply(s.cmd.Kind, r.Status))
	case stepPeek:
		if r.Status != core.StatusFound {
			s.say(beanstalk.MsgNotFound)
			return
		}
		if r.Large != nil {
			*out = beanstalk.AppendFoundHeader(*out, uint64(r.ID), r.Large.Len())
			s.large = r.Large
			return
		}
		*out = beanstalk.AppendFound(*out, uint64(r.ID), r.Body)
	case stepTake:
		s.req.Op.Waiter = nil
		if r.Status != core.StatusReserved {
			s.say(beanstalk.MsgNotFound)
			return
		}
		s.setWorker()
		s.sayReserved(r)
	case stepKick:
		s.kicked(r)
	case stepUse:
		s.usedNow(r)
	case stepUnuse:
		*out = beanstalk.AppendUsing(*out, s.used.Name)
	case stepWatch:
		s.watchedNow(r, l)
	case stepMirror:
		s.mirrored()
	case stepIgnore:
		*out = beanstalk.AppendWatching(*out, len(s.watched))
	case stepPause:
		s.req.Op.Name = nil
		if r.Status == core.StatusNotFound {
			s.say(beanstalk.MsgNotFound)
			return
		}
		s.say(beanstalk.MsgPaused)
	case stepStatsJob, stepStatsTube, stepStats:
		s.gathered(r)
	case stepReserve, stepProbe, stepMargin, stepRegister, stepCancel:
		s.reserveStep(r, l)
	case stepJoin:
		s.joined(r, l)
	default:
		if s.gear != nil {
			s.gear.handle(r)
			return
		}
		s.closeStep(r)
	}
}

// simpleReply is the answer to a command on one job.
func simpleReply(k beanstalk.Kind, st core.Status) string {
	if st == core.StatusNotFound {
		return beanstalk.MsgNotFound
	}
	switch k {
	case beanstalk.Delete:
		return beanstalk.MsgDeleted
	case beanstalk.Release:
		return beanstalk.MsgReleased
	case beanstalk.Bury:
		return beanstalk.MsgBuried
	case beanstalk.Touch:
		return beanstalk.MsgTouched
	case beanstalk.KickJob:
		return beanstalk.MsgKicked
	}
	return beanstalk.MsgInternalError
}

// sayReserved answers with a job.
func (s *session) sayReserved(r *core.Reply) {
	out := &s.loop.out
	if r.Large != nil {
		*out = beanstalk.AppendReservedHeader(*out, uint64(r.ID), r.Large.Len())
		s.large = r.Large
		return
	}
	*out = beanstalk.AppendReserved(*out, uint64(r.ID), r.Body)
}

// kicked adds up a kick that comes in bounded parts.
func (s *session) kicked(r *core.Reply) {
	s.gather.kicked += r.N
	if r.Status != core.StatusMore {
		s.loop.out = beanstalk.AppendKicked(s.loop.out, s.gather.kicked)
		return
	}
	op := &s.req.Op
	op.N -= r.N
	op.Kicked = r.Kicked
	s.submitLater(stepKick)
}

// kickStops reports whether a kick that comes in parts waits for room on the disk. When
// there will be none it ends with what it has moved.
func (s *session) kickStops() bool {
	j := s.loop.srv.journal
	switch {
	case j == nil || s.phase != phaseBusy:
	case s.dying:
		s.deferred, s.phase = false, phaseIdle
		s.goOn()
		return true
	case s.blocked:
		return true
	case j.Pressure() == commit.Wait:
		s.block()
		return true
	case j.Pressure() == commit.Full:
		s.deferred, s.phase = false, phaseIdle
		s.loop.out = beanstalk.AppendKicked(s.loop.out, s.gather.kicked)
		s.goOn()
		return true
	}
	return false
}

// put takes a put line; rest is what follows it.
func (s *session) put(rest []byte) (n int) {
	srv := s.loop.srv
	size := int(s.cmd.Size)
	if s.cmd.Size > srv.cfg.MaxJobSize {
		s.skipBody(beanstalk.MsgJobTooBig)
		return 0
	}
	if s.cmd.Trailing {
		s.say(beanstalk.MsgBadFormat)
		return 0
	}
	if !s.producer {
		s.producer = true
		s.loop.producers.Add(1)
	}
	// The reference numbers a job when its line parses, before the body.
	s.putID = s.number(rest)
	srv.places.IDs().Note(s.putID, s.used.Shard)
	if len(rest) >= size+2 && size <= slab.MaxSize {
		s.enqueue(rest[:size:size], rest[size:size+2])
		return size + 2
	}
	s.phase = phaseBody
	s.startBody(size + 2)
	return 0
}

// enqueue submits the job that was read, unless its body does not end as it
// should. A large body is in pieces.
func (s *session) enqueue(body, end []byte) {
	s.phase = phaseIdle
	switch {
	case !isCRLF(end):
		s.dropPut(beanstalk.MsgExpectedCRLF)
		return
	case s.loop.srv.draining.Load():
		s.dropPut(beanstalk.MsgDraining)
		return
	}
	op := &s.req.Op
	op.Kind, op.Client, op.Tube, op.ID = core.OpPut, 0, s.used.ID, s.putID
	op.Pri, op.Delay, op.TTR = s.cmd.Pri, s.cmd.Delay, s.cmd.TTR
	op.Body, op.Large = body, s.pieces
	s.submit(s.used.Shard, stepPut)
	s.advance()
}

// dropPut answers a put of which no job came.
func (s *session) dropPut(msg string) {
	s.loop.ended.Finish(s.putID)
	s.putID = 0
	s.endBody()
	s.say(msg)
}

func (s *session) putDone(r *core.Reply) {
	op := &s.req.Op
	op.Body, op.Large = nil, nil
	id := s.putID
	if r.Status != core.StatusOK {
		s.loop.srv.complain("out of memory for a job", "conn", s, "bytes", s.cmd.Size)
		s.dropPut(beanstalk.MsgOutOfMemory)
		return
	}
	s.putID = 0
	s.endBody()
	s.loop.out = beanstalk.AppendInserted(s.loop.out, uint64(id))
}

// skipBody discards the body of a put that is answered with msg.
func (s *session) skipBody(msg string) {
	s.skip = int(s.cmd.Size) + 2
	s.skipped = msg
	s.phase = phaseSkipBody
}

func (s *session) setWorker() {
	if !s.worker {
		s.worker = true
		s.loop.workers.Add(1)
	}
}

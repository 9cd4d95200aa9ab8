package router

import (
	"strconv"

	"os"

	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// gearList is what a command that asks all shards has gathered.
type gearList struct {
	newest  core.JobID
	status  gearman.JobStatus
	clients uint32
}

// admin runs a line of text.
func (g *gearSession) admin() {
	s, m := g.s, &g.m
	srv, out := s.loop.srv, &s.loop.out
	switch m.Verb {
	case gearman.Workers:
		g.workers()
	case gearman.Status, gearman.PriorityStatus:
		g.at = 0
		g.askAll(core.OpListFunctions, stepGearFunctions)
	case gearman.ShowJobs, gearman.ShowUniqueJobs:
		g.at = 0
		g.askAll(core.OpListJobs, stepGearJobs)
	case gearman.MaxQueue:
		g.op.Limits = [core.NumClasses]uint32(m.Limits)
		g.onFunction(core.OpLimitFunction, m.Args[0], stepGearOK)
	case gearman.CreateFunction:
		g.onFunction(core.OpCreateFunction, m.Args[0], stepGearOK)
	case gearman.DropFunction:
		g.onFunction(core.OpDropFunction, []byte(srv.places.Tubes().FindFolded(string(m.Args[0]))), stepGearDrop)
	case gearman.CancelJob:
		id, sh, ok := g.find(m.Args[0])
		if !ok {
			s.say(gearman.MsgUnknownJob)
			return
		}
		s.req.Op.Kind, s.req.Op.Client, s.req.Op.ID = core.OpCancelJob, 0, id
		s.submit(sh, stepGearCancel)
	case gearman.Version:
		*out = gearman.AppendOK(*out, srv.cfg.Gearman.Version)
	case gearman.Verbose:
		*out = gearman.AppendOK(*out, srv.cfg.Gearman.Verbose)
	case gearman.GetPID:
		*out = gearman.AppendOK(*out, strconv.Itoa(os.Getpid()))
	case gearman.Shutdown, gearman.ShutdownGraceful:
		if !g.mayShutDown() {
			srv.complain("refused the command "+m.Verb.String()+": see --gearman-shutdown", "conn", s)
			*out = gearman.ErrUnknownCommand.AppendReply(*out, m)
			return
		}
		srv.log.Info("a Gearman administrator sent "+m.Verb.String(), "conn", s)
		s.say(gearman.MsgOK)
		srv.wantShutdown(m.Verb == gearman.ShutdownGraceful)
	}
}

func (g *gearSession) mayShutDown() bool {
	switch g.s.loop.srv.cfg.Gearman.Shutdown {
	case ShutdownAny:
		return true
	case ShutdownNone:
		return false
	}
	g.s.loop.round.budget -= roundUnits // to list the machine's addresses takes a while
	return isHere(peerOf(g.s.conn))
}

func (g *gearSession) onFunction(kind core.OpKind, name []byte, st step) {
	op := &g.s.req.Op
	op.Kind, op.Client, op.Name = kind, 0, name
	g.s.submit(g.s.loop.srv.places.OfTube(name), st)
}

// askAll asks the shard whose turn it is, from the beginning.
func (g *gearSession) askAll(kind core.OpKind, st step) {
	op := &g.s.req.Op
	op.Kind, op.Client = kind, 0
	g.op.Cursor = 0
	g.s.loop.round.budget -= statsCost
	g.s.submit(g.at, st)
}

// adminStep takes the reply of one step.
func (g *gearSession) adminStep(r *core.Reply) {
	s := g.s
	s.req.Op.Name = nil
	switch s.step {
	case stepGearOK:
		s.say(gearman.MsgOK)
	case stepGearDrop:
		switch r.Status {
		case core.StatusNotFound:
			s.say(gearman.MsgFunctionNotFound)
		case core.StatusInUse:
			s.say(gearman.MsgFunctionBusy)
		default:
			s.say(gearman.MsgOK)
		}
	case stepGearCancel:
		if r.Status == core.StatusNotFound {
			s.say(gearman.MsgUnknownJob)
		} else {
			s.say(gearman.MsgOK)
		}
	case stepGearFunctions:
		g.sayFunctions()
		g.listNext(r)
	case stepGearJobs:
		g.sayJobs()
		g.listNext(r)
	}
}

// listNext goes on with a list, of which one visit's part has been said. It is as
// long as there are functions or jobs: other connections have their turns in
// between, and a client that does not read has no more for now (see held).
func (g *gearSession) listNext(r *core.Reply) {
	s := g.s
	if r.Status == core.StatusMore && !s.dying {
		s.submitLater(s.step)
		return
	}
	if g.at++; g.at < len(s.loop.srv.places.Shards()) && !s.dying {
		g.askAll(s.req.Op.Kind, s.step)
		return
	}
	g.op.Functions, g.op.Jobs = nil, nil
	s.say(gearman.MsgEnd)
	g.hearNoop()
	s.reprobe = g.early.first != nil
}

// listing reports whether the command under way makes a list.
func (g *gearSession) listing() bool {
	return g.s.step == stepGearFunctions || g.s.step == stepGearJobs || g.s.list != nil
}

// held reports whether the next part of a list is to wait until the client has
// read more. drained, unblocked and abort go on.
func (g *gearSession) held() bool {
	s := g.s
	return (s.stalled || s.backed) && !s.dying && g.listing()
}

func (g *gearSession) sayFunctions() {
	out := &g.s.loop.out
	for i := range g.op.Functions {
		f := &g.op.Functions[i]
		st := gearman.FunctionStatus{Waiting: f.Waiting, Running: f.Running, Workers: f.Workers}
		if g.m.Verb == gearman.Status {
			*out = gearman.AppendStatusLine(*out, f.Name, &st)
		} else {
			*out = gearman.AppendPriorityStatusLine(*out, f.Name, &st)
		}
	}
	g.op.Functions = g.op.Functions[:0]
}

func (g *gearSession) sayJobs() {
	out := &g.s.loop.out
	for _, j := range g.op.Jobs {
		if g.m.Verb == gearman.ShowJobs {
			*out = gearman.AppendJobLine(*out, g.handleOf(j.ID), j.Lost, j.Background)
		} else {
			*out = gearman.AppendUniqueLine(*out, j.Unique)
		}
	}
	g.op.Jobs = g.op.Jobs[:0]
}

package router

import (
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// getStatus and getStatusUnique keep what was asked for: the answer repeats it.
func (g *gearSession) getStatus() {
	s, op := g.s, &g.s.req.Op
	g.keepArgs()
	id, sh, ok := g.find(g.m.Args[0])
	if !ok {
		s.loop.out = gearman.AppendStatus(s.loop.out, g.m.Args[0], gearman.JobStatus{})
		return
	}
	op.Kind, op.Client, op.ID = core.OpJobStatus, 0, id
	s.submit(sh, stepGearStatus)
}

// getStatusUnique asks all shards: the function is not part of the question, and
// the newest job counts.
func (g *gearSession) getStatusUnique() {
	g.keepArgs()
	g.op.SetUnique(g.m.Args[0])
	g.op.ByBody = false
	g.at = 0
	g.list = gearList{}
	g.nextUnique()
}

// uniqueCost is what one shard's part of GET_STATUS_UNIQUE takes of a turn's budget.
const uniqueCost = 64

func (g *gearSession) nextUnique() {
	op := &g.s.req.Op
	op.Kind, op.Client = core.OpUniqueStatus, 0
	g.op.Cursor = 0
	g.s.loop.round.budget -= uniqueCost
	g.s.submit(g.at, stepGearUnique)
}

// uniqueAnswered takes one shard's part.
func (g *gearSession) uniqueAnswered(r *core.Reply) {
	s := g.s
	if r.ID > g.list.newest {
		g.list.newest, g.list.status, g.list.clients = r.ID, g.jobStatus(r), g.op.Clients
	}
	if r.Status == core.StatusMore {
		s.submitLater(stepGearUnique)
		return
	}
	if g.at++; g.at < len(s.loop.srv.places.Shards()) {
		g.nextUnique()
		return
	}
	s.loop.out = gearman.AppendStatusUnique(s.loop.out, g.m.Args[0], g.list.status, g.list.clients)
}

func (g *gearSession) jobStatus(r *core.Reply) gearman.JobStatus {
	if r.ID == 0 {
		return gearman.JobStatus{}
	}
	return gearman.JobStatus{Known: true, Running: g.op.Running, Numerator: g.op.Numerator, Denominator: g.op.Denominator}
}

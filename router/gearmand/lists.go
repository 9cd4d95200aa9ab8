package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/access"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// Lists of functions, jobs or workers may be long, so they are sent in parts. Between parts
// the loop's other connections have their turns. A client that does not read stops the list.
// Mail waits until the end.

// listStops are the reasons that stop a list.
const listStops = session.Unread | session.Uncommitted

const (
	// askCost is the cost of one shard's part of a list, in units of a turn.
	askCost = 4
	// partNames is how many names are written in a part of the reply to workers, and partCost
	// the cost of a part.
	partNames = 512
	partCost  = 64
)

// listAll replies to the verbs for which each shard has a part of the list.
func (c *conn) listAll() {
	c.early.waits = allWaits
	c.askShard(c.walk.Start(c.places()))
}

// askShard requests a shard's part, from the beginning.
func (c *conn) askShard(shard int) {
	c.Spend(askCost)
	switch c.m.Verb {
	case gearman.ShowJobs, gearman.ShowUniqueJobs:
		c.Op().ListJobs()
		c.runOn(shard, (*conn).jobsListed)
	default:
		c.Op().ListFunctions()
		c.runOn(shard, (*conn).functionsListed)
	}
}

// listNext continues a list after the part of one visit.
func (c *conn) listNext(r *core.Reply) {
	hop := ops.Hop{Shard: ops.None}
	if !c.Broken() {
		hop = c.walk.Next(r.Status)
	}
	switch {
	case hop.Later:
		c.visitLater(listStops)
	case hop.Shard != ops.None:
		c.askShard(hop.Shard)
	default:
		c.op.Functions, c.op.Jobs = nil, nil
		c.Say(gearman.MsgEnd)
		c.listSaid()
	}
}

// listSaid ends a list: it sends the mail that waited.
func (c *conn) listSaid() {
	c.sayNoop()
	c.mailMayGo()
}

func (c *conn) functionsListed(r *core.Reply) {
	for i := range c.op.Functions {
		f := &c.op.Functions[i]
		s := gearman.FunctionStatus{Waiting: f.Waiting, Running: f.Running, Workers: f.Workers}
		if c.m.Verb == gearman.Status {
			c.SetOut(gearman.AppendStatusLine(c.Out(), f.Name, &s))
		} else {
			c.SetOut(gearman.AppendPriorityStatusLine(c.Out(), f.Name, &s))
		}
	}
	c.op.Functions = c.op.Functions[:0]
	c.listNext(r)
}

func (c *conn) jobsListed(r *core.Reply) {
	for _, j := range c.op.Jobs {
		if c.m.Verb == gearman.ShowJobs {
			c.SetOut(gearman.AppendJobLine(c.Out(), c.handleOf(j.ID), j.Lost, j.Background))
		} else {
			c.SetOut(gearman.AppendUniqueLine(c.Out(), j.Unique))
		}
	}
	c.op.Jobs = c.op.Jobs[:0]
	c.listNext(r)
}

// workers replies to the command of that name.
func (c *conn) workers() {
	c.early.waits = allWaits
	c.list = &workersList{visible: c.op.Visible, own: c.entry, all: c.Credential().Level() >= access.ReadLevel}
	c.sayWorkers()
}

// sayWorkers continues the reply to workers.
func (c *conn) sayWorkers() {
	if c.Broken() {
		return
	}
	for {
		out, more := c.front.directory.part(c.Out(), c.list)
		if c.SetOut(out); !more {
			break
		}
		c.Spend(partCost)
		c.FlushFull()
		if !c.MayContinue() {
			c.next = (*conn).sayWorkers
			c.Later(0, listStops)
			return
		}
	}
	c.list = nil
	c.listSaid()
}

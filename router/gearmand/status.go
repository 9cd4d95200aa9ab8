package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/ops"
	"polystalk/shard/core"
)

// getStatus and getStatusUnique keep what was asked for: the answer repeats it.
func (c *conn) getStatus() {
	c.keepArgs()
	id, shard, ok := c.find(c.m.Args[0])
	if !ok {
		c.sayStatus(gearman.JobStatus{})
		return
	}
	c.Op().JobStatus(id)
	c.runOn(shard, (*conn).statusTold)
}

func (c *conn) statusTold(r *core.Reply) { c.sayStatus(c.jobStatus(r)) }

func (c *conn) sayStatus(s gearman.JobStatus) {
	out := c.Out()
	*out = gearman.AppendStatus(*out, c.m.Args[0], s)
}

// jobStatus is what a reply tells of a job.
func (c *conn) jobStatus(r *core.Reply) gearman.JobStatus {
	if r.ID == 0 {
		return gearman.JobStatus{}
	}
	return gearman.JobStatus{Known: true, Running: c.op.Running, Numerator: c.op.Numerator, Denominator: c.op.Denominator}
}

// A uniqueStatus is what shards have told of the newest job with a unique id.
type uniqueStatus struct {
	newest  core.JobID // zero: there is none
	status  gearman.JobStatus
	clients uint32 // submissions that wait for it
}

// uniqueCost is what one shard's part of GET_STATUS_UNIQUE takes of a turn's budget.
const uniqueCost = 64

// getStatusUnique asks all shards: the function is not part of the question, and the
// newest job counts.
func (c *conn) getStatusUnique() {
	c.keepArgs()
	c.uniq = uniqueStatus{}
	c.askUnique(c.walk.Start(c.places()))
}

// askUnique asks a shard, from the beginning.
func (c *conn) askUnique(shard int) {
	c.Op().UniqueStatus(c.m.Args[0])
	c.Spend(uniqueCost)
	c.runOn(shard, (*conn).uniqueTold)
}

func (c *conn) uniqueTold(r *core.Reply) {
	u := &c.uniq
	if r.ID > u.newest {
		*u = uniqueStatus{r.ID, c.jobStatus(r), c.op.Clients}
	}
	switch hop := c.walk.Next(r.Status); {
	case hop.Later:
		c.visitLater(0)
	case hop.Shard != ops.None:
		c.askUnique(hop.Shard)
	default:
		out := c.Out()
		*out = gearman.AppendStatusUnique(*out, c.m.Args[0], u.status, u.clients)
	}
}

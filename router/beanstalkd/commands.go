package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/access"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A walk has the state of a command with several visits. Only reserve has its own state.
type walk struct {
	shards ops.Walk
	sum    *core.Counts
	kick   ops.Kick
	leave  ops.Leave
	shard  int     // of a deferred visit
	list   listing // the rest of a reply in parts
}

// walking returns the session's walk, and makes it if necessary.
func (c *conn) walking() *walk {
	if c.walk == nil {
		c.walk = new(walk)
	}
	return c.walk
}

// dispatch starts the parsed command; rest is the input behind its line. It returns how many
// bytes of rest it used.
func (c *conn) dispatch(rest []byte) (n int) {
	cmd := &c.cmd
	c.count()
	switch cmd.Kind {
	case beanstalk.Put:
		n = c.put(rest)
	case beanstalk.Reserve:
		c.startReserve(core.Never)
	case beanstalk.ReserveWithTimeout:
		c.startReserve(core.Time(cmd.Timeout) * core.Second)
	case beanstalk.Delete, beanstalk.Release, beanstalk.Bury, beanstalk.Touch,
		beanstalk.KickJob, beanstalk.Peek, beanstalk.ReserveJob, beanstalk.StatsJob:
		c.onJob()
	case beanstalk.PeekReady:
		c.Op().PeekReady(c.used.ID)
		c.runOn(c.used.Shard, (*conn).peeked)
	case beanstalk.PeekDelayed:
		c.Op().PeekDelayed(c.used.ID)
		c.runOn(c.used.Shard, (*conn).peeked)
	case beanstalk.PeekBuried:
		c.Op().PeekBuried(c.used.ID)
		c.runOn(c.used.Shard, (*conn).peeked)
	case beanstalk.Kick:
		c.walking().kick.Start(c.used.ID, cmd.Bound, c.Op())
		c.runOn(c.used.Shard, (*conn).kicked)
	case beanstalk.Use:
		c.use()
	case beanstalk.Watch:
		c.watch()
	case beanstalk.Ignore:
		c.ignore()
	case beanstalk.PauseTube:
		c.Op().Pause(cmd.Name, cmd.Delay)
		c.runOn(c.Host().Map.OfTube(cmd.Name), (*conn).paused)
	case beanstalk.StatsTube:
		c.Op().StatsTube(cmd.Name, new(core.TubeStats))
		c.runOn(c.Host().Map.OfTube(cmd.Name), (*conn).saidTube)
	case beanstalk.Stats:
		c.stats()
	case beanstalk.ListTubes:
		c.listTubes()
	case beanstalk.ListTubesWatched:
		c.listWatched()
	case beanstalk.ListTubeUsed:
		c.sayUsing()
	case beanstalk.Quit:
		c.QuitNow()
	case beanstalk.Auth:
		c.auth()
	}
	return n
}

// onJob runs a command that names a job, in the shard of the job.
func (c *conn) onJob() {
	shard, ok := c.Host().Map.OfJob(core.JobID(c.cmd.ID))
	switch {
	case !ok:
		c.fail(notFound)
	case c.Credential() != nil && needs[c.cmd.Kind] != 0 && c.cmd.Kind != beanstalk.Delete:
		c.findTube(shard)
	default:
		c.onJobIn(shard)
	}
}

// onJobIn runs the command in a shard.
func (c *conn) onJobIn(shard int) {
	cmd, op := &c.cmd, c.Op()
	id := core.JobID(cmd.ID)
	client, then := c.handles.Client(shard), (*conn).changed
	switch cmd.Kind {
	case beanstalk.Delete:
		op.Delete(client, id)
		op.HeldOnly = c.Credential() != nil
		then = (*conn).deleted
	case beanstalk.Release:
		op.Release(client, id, cmd.Pri, cmd.Delay)
	case beanstalk.Bury:
		op.Bury(client, id, cmd.Pri)
	case beanstalk.Touch:
		op.Touch(client, id)
	case beanstalk.KickJob:
		op.KickJob(client, id)
	case beanstalk.Peek:
		op.Peek(client, id)
		then = (*conn).peeked
	case beanstalk.ReserveJob:
		op.ReserveJob(client, id, nil)
		then = (*conn).reservedJob
	case beanstalk.StatsJob:
		op.StatsJob(client, id, new(core.JobStats))
		then = (*conn).saidJob
	}
	c.runOn(shard, then)
}

// changed takes the reply of an operation on one job; its status determines the reply to the client.
// A bury of a job that is not recorded yet may have to wait for room.
func (c *conn) changed(r *core.Reply) {
	if c.Unadmitted(r) {
		c.next = (*conn).runAdmitted
		return
	}
	c.EndBody()
	c.sayChanged(c.cmd.Kind, r.Status)
}

// runAdmitted repeats an operation that waited for room in the log, if there is room.
func (c *conn) runAdmitted() {
	switch c.Readmit(true) {
	case session.Run:
		c.visitAgain()
	case session.Wait:
		c.next = (*conn).runAdmitted
	default:
		if !c.Broken() {
			c.fail(outOfMemory)
		}
	}
}

func (c *conn) deleted(r *core.Reply) {
	switch {
	case r.Status == core.StatusOK:
		c.Loop().Ended.Finish(core.JobID(c.cmd.ID))
	case c.Op().HeldOnly:
		c.findTube(c.Visited())
		return
	}
	c.sayChanged(beanstalk.Delete, r.Status)
}

// simpleReplies are the replies to commands on one job, if the job exists.
var simpleReplies = [beanstalk.NumKinds]string{
	beanstalk.Delete: beanstalk.MsgDeleted, beanstalk.Release: beanstalk.MsgReleased, beanstalk.Bury: beanstalk.MsgBuried,
	beanstalk.Touch: beanstalk.MsgTouched, beanstalk.KickJob: beanstalk.MsgKicked,
}

// sayChanged replies to a command on one job.
func (c *conn) sayChanged(k beanstalk.Kind, st core.Status) {
	if st == core.StatusNotFound {
		c.fail(notFound)
		return
	}
	c.Say(simpleReplies[k])
}

func (c *conn) peeked(r *core.Reply) {
	switch {
	case r.Status != core.StatusFound:
		c.fail(notFound)
	case r.Large != nil:
		c.SetOut(beanstalk.AppendFoundHeader(c.Out(), uint64(r.ID), r.Large.Len()))
		c.SendLarge(r.Large, crlf)
	default:
		c.SetOut(beanstalk.AppendFound(c.Out(), uint64(r.ID), r.Body))
	}
}

func (c *conn) reservedJob(r *core.Reply) {
	if r.Status != core.StatusReserved {
		c.fail(notFound)
		return
	}
	c.AddRole(session.Worker)
	c.sayReserved(r)
}

// sayReserved replies with a reserved job.
func (c *conn) sayReserved(r *core.Reply) {
	if r.Large != nil {
		c.SetOut(beanstalk.AppendReservedHeader(c.Out(), uint64(r.ID), r.Large.Len()))
		c.SendLarge(r.Large, crlf)
		return
	}
	c.SetOut(beanstalk.AppendReserved(c.Out(), uint64(r.ID), r.Body))
}

// kicked takes the reply of one bounded part of a kick.
func (c *conn) kicked(r *core.Reply) {
	if c.walk.kick.Next(r, c.Op()) {
		c.goOnLater(session.PartUnits, session.NoSpace, (*conn).kickOn)
		return
	}
	c.sayKicked()
}

func (c *conn) sayKicked() {
	c.SetOut(beanstalk.AppendKicked(c.Out(), c.walk.kick.Moved))
}

// kickOn continues a kick in a later turn, if the log has room. If the disk is full, the reply
// counts only the jobs moved so far.
func (c *conn) kickOn() {
	if c.verbs&access.Manage == 0 { // since a reload
		c.sayKicked()
		return
	}
	if c.Broken() && c.Host().Journal != nil {
		return // without a journal a kick is always completed, as in beanstalkd
	}
	switch v, _ := c.Admit(session.Need{Records: true}); v {
	case session.Wait:
		c.goOnLater(0, session.NoSpace, (*conn).kickOn)
	case session.Refuse:
		c.sayKicked()
	default:
		c.visitAgain()
	}
}

package core

import (
	"fmt"

	"polystalk/shard/stats"
)

// The operations of the job's life, one function each. Sources: protocol
// document of beanstalkd 1.13 and, where it is silent, prot.c's dispatch_cmd.
//
// Their steps have one order. A job leaves a container and enters another; then the change is
// recorded; then the job is matched with waiting clients, and published if none takes it;
// closeTube is last. The record comes before the match, since the reply to the client that gets
// the job contains the commit of the record. A job that ends is recorded before it is freed,
// because the record is made from it. After closeTube the tube may be gone, and after the match
// the job may belong to any client, so neither may be read.

// applyPut adds a job, or gives it to a waiting client at once.
func (c *Core) applyPut(op *Op, r *Reply) {
	t := c.tubeAt(op.Tube)
	if t.policy != nil && !c.admits(t, op.size()) {
		r.Status = StatusFull
		return
	}
	i, j := c.newJob(op)
	if i == 0 {
		r.Status = StatusOutOfMemory
		return
	}
	j.Created = c.now
	j.Pri, j.Delay = op.Pri, op.Delay
	j.setTTR(op.TTR)
	c.countIn(t, j)
	t.total++
	c.counts.Total++
	if op.Delay > 0 {
		c.enterDelayed(t, i, j, c.delayUntil(op.Delay))
		c.recordNew(t, j)
		return
	}
	c.enterReady(t, i, j)
	c.recordNew(t, j)
	c.match(t)
}

// applyReserve takes the best job for a client, or makes the client wait. A reserve over
// several shards must take the best job of all of them, or report that there is none. The
// bound and the Waiter's Guard decide that.
func (c *Core) applyReserve(op *Op, r *Reply) {
	cl := c.clientAt(op.Client)
	if op.Waiter != nil {
		cl.setWaiter(op.Waiter)
	}
	if cl.waiter == nil && (op.Wait || op.Multi) {
		panic(fmt.Sprintf("core: client %d reserves in wait %d, and has no Waiter", cl.id, op.Seq))
	}
	if !op.Multi || cl.seq != op.Seq {
		// Another shard has ended the client's earlier wait. A visit for the current wait
		// keeps the client's place in the queue.
		c.unwait(cl)
	}
	t := c.bestTube(cl)
	soon := t == nil && c.deadlineSoon(cl)
	if t != nil || soon {
		// StatusDeadlineSoon is only correct if no shard has a job for the client: MaxKey
		// comes after every job that the bound may name.
		k := MaxKey
		if t != nil {
			k = t.best()
		}
		if op.Bound.Less(k) || op.Multi && !cl.waiter.stands(k) {
			r.Status = StatusElsewhere
			return
		}
		if op.Multi {
			// This answer ends the wait. It is closed, so no other shard can end it. Other shards
			// with the client in a queue notice that, or are told by OpCancel.
			c.unwait(cl)
			cl.waiter.Take(op.Seq)
		}
	}
	switch {
	case t != nil:
		c.replyJob(r, StatusReserved, c.reserve(t, cl))
		c.publish(t)
	case soon:
		r.Status = StatusDeadlineSoon
	case !op.Wait || op.Multi && op.Until <= c.awake():
		r.Status = StatusTimedOut
	default:
		if !cl.waiting {
			c.wait(cl, op.Seq, op.Until)
		}
		r.Status = StatusWaiting
	}
}

// applyReserveJob reserves a job in any state but Reserved.
func (c *Core) applyReserveJob(op *Op, r *Reply) {
	i, j, t := c.find(op.ID)
	if i == 0 || j.State == Reserved {
		r.Status = StatusNotFound
		return
	}
	cl := c.clientFor(op)
	was := j.State
	if was == Ready {
		t.flowOf().Waited(&c.sums.Totals, c.since(j))
	} else {
		c.count(t, stats.Reserve)
	}
	c.leave(t, i, j)
	c.enterReserved(t, i, j, cl)
	if was != Ready && c.buf != nil && !c.buf.Full {
		// After a restart the job is ready, not buried or delayed as before. Without room for
		// the record it comes back in its old state, so no job is lost.
		c.recordUpdate(t, j)
	}
	c.replyJob(r, StatusReserved, j)
	r.Client = cl.id
}

// applyDelete deletes a job that no other client has reserved.
func (c *Core) applyDelete(op *Op, r *Reply) {
	i, j, t := c.find(op.ID)
	if i == 0 || j.State == Reserved && (j.Client != op.Client || op.Client == 0) || op.HeldOnly && j.State != Reserved {
		r.Status = StatusNotFound
		return
	}
	if j.isSubmitted() {
		c.submissionDeleted(j)
	}
	c.leave(t, i, j)
	c.recordDelete(t, j)
	c.countOut(t, j)
	c.freeJob(i, j)
	t.deletes++
	c.closeTube(t) // if only its jobs kept it
}

// applyRelease makes a reserved job ready or delayed, with a new priority. A submitted job
// whose result no client wants any more ends instead.
func (c *Core) applyRelease(op *Op, r *Reply) {
	i, j, t := c.findHeld(op)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	c.leaveReserved(t, i, j)
	if j.isSubmitted() && c.unwanted(j) {
		c.dropJob(t, i, j)
		return
	}
	j.Pri, j.Delay = op.Pri, op.Delay
	j.Releases++
	c.count(t, stats.Release)
	if c.fail(t, i, j, op.Delay > 0) {
		return
	}
	if op.Delay > 0 {
		c.enterDelayed(t, i, j, c.delayUntil(op.Delay))
		c.recordUpdate(t, j)
		return
	}
	c.enterReady(t, i, j)
	c.recordUpdate(t, j)
	c.match(t)
}

// applyBury buries a reserved job. A submitted job that was cancelled meanwhile ends instead.
func (c *Core) applyBury(op *Op, r *Reply) {
	i, j, t := c.findHeld(op)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	if j.isSubmitted() && !c.submissionOf(j).is(cancelled) && c.unadmitted(j, op, r) {
		return // the job is unchanged: the caller asks again
	}
	c.leaveReserved(t, i, j)
	if j.isSubmitted() && c.submissionOf(j).is(cancelled) {
		c.dropJob(t, i, j)
		return
	}
	j.Pri = op.Pri
	c.bury(t, i, j, BuriedByWorker)
}

// bury buries a job that is in no container. The followers of a submitted job are told that it
// failed. From then on it is kept and recorded like a background job.
func (c *Core) bury(t *tube, i uint32, j *Job, by BuriedBy) {
	c.enterBuried(t, i, j)
	j.setBuriedBy(by)
	c.count(t, stats.Bury)
	if j.isSubmitted() {
		x := c.submissionOf(j)
		c.relay(j, x, RelayFailed, nil, nil)
		c.conclude(j)
		if !x.is(Background) {
			x.Flags |= Background
			c.recordNew(t, j)
		}
	}
	c.recordUpdate(t, j)
}

// applyTouch restarts the time to run of a reservation.
func (c *Core) applyTouch(op *Op, r *Reply) {
	i, j, t := c.findHeld(op)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	c.touch(t, i, j)
}

// touch restarts the time to run of a reserved job.
func (c *Core) touch(t *tube, i uint32, j *Job) {
	cl := c.clientAt(j.Client)
	cl.due.Set(c.jobs, int(j.Pos), entry{A: uint64(c.deadlineOf(j, t, cl)), Job: i})
	c.timers.want(&cl.timer, c.dueAt(&cl.timer))
}

// boundedMax is the maximum number of jobs that a kick or a closing client moves in one visit.
// The caller asks again for the rest, so other clients get their turn.
const boundedMax = 1024

// applyKick kicks buried jobs if there are any, else delayed ones, never both. Later visits
// keep the choice of the first, even if the buried list has become empty meanwhile.
func (c *Core) applyKick(op *Op, r *Reply) {
	t := c.tubeAt(op.Tube)
	r.Kicked = op.Kicked
	if r.Kicked == kickUndecided {
		r.Kicked = kickBuried
		if t.buried.N == 0 {
			r.Kicked = kickDelayed
		}
	}
	for r.N < op.N {
		var i uint32
		switch {
		case r.Kicked == kickDelayed && t.delay.N > 0:
			i = t.delay.top().Job
		case r.Kicked == kickBuried && t.buried.N > 0:
			i = t.buried.Head
		default:
			return
		}
		if r.N == boundedMax {
			r.Status = StatusMore
			return
		}
		c.kick(t, i)
		r.N++
	}
}

// applyKickJob kicks one job.
func (c *Core) applyKickJob(op *Op, r *Reply) {
	i, j, t := c.find(op.ID)
	if i == 0 || j.State != Buried && j.State != Delayed {
		r.Status = StatusNotFound
		return
	}
	c.kick(t, i)
}

// kick makes a buried or delayed job ready. Each job is matched at once, so the oldest goes to
// the client that waits longest, as with beanstalkd.
func (c *Core) kick(t *tube, i uint32) {
	j := c.jobs.At(i)
	c.leave(t, i, j)
	j.Kicks++
	c.count(t, stats.Kick)
	c.enterReady(t, i, j)
	c.recordUpdate(t, j)
	c.match(t)
}

// applyPeek shows a job and leaves it in its state.
func (c *Core) applyPeek(op *Op, r *Reply) {
	var i uint32
	switch op.Kind {
	case OpPeek:
		i, _, _ = c.find(op.ID)
	case OpPeekReady:
		if t := c.tubeAt(op.Tube); t.ready.N > 0 {
			i = t.ready.top().Job
		}
	case OpPeekDelayed:
		if t := c.tubeAt(op.Tube); t.delay.N > 0 {
			i = t.delay.top().Job
		}
	case OpPeekBuried:
		i = c.tubeAt(op.Tube).buried.Head
	}
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	c.replyJob(r, StatusFound, c.jobs.At(i))
}

// applyPause pauses a tube, or ends its pause.
func (c *Core) applyPause(op *Op, r *Reply) {
	t := c.findTube(op.Name)
	if t == nil {
		r.Status = StatusNotFound
		return
	}
	c.pause(t, Time(op.Delay)*Second)
}

// applyTube runs what a connection does to its used tube and watch list.
func (c *Core) applyTube(op *Op, r *Reply) {
	switch op.Kind {
	case OpUse:
		// Open the new tube first: if it is the old one, it is not closed and made again.
		t := c.openTube(op.Name)
		t.using++
		c.unuse(op.Tube)
		r.Tube, r.Face = t.id, t.Face
	case OpUnuse:
		c.unuse(op.Tube)
	case OpMirror:
		r.Mirror = c.mirrorOf(c.tubeAt(op.Tube))
	case OpIgnore:
		cl := c.clientAt(op.Client)
		c.ignore(cl, c.watchAt(cl, c.tubeAt(op.Tube)))
	case OpJoin, OpWatch:
		cl := c.clientFor(op)
		t := c.openTube(op.Name)
		r.Client = cl.id
		if !c.watch(cl, t) {
			c.closeTube(t)
			r.Status = StatusOutOfMemory
			return
		}
		if op.Kind == OpJoin {
			t.using++
		}
		if op.Mirror {
			r.Mirror = c.mirrorOf(t)
		}
		r.Tube, r.Face = t.id, t.Face
	}
}

// unuse ends the use of a tube by a client; zero: there is none.
func (c *Core) unuse(id TubeID) {
	if id == 0 {
		return
	}
	t := c.tubeAt(id)
	if t.using == 0 {
		panic(fmt.Sprintf("core: tube %q is let go of, and nobody uses it", t.name))
	}
	t.using--
	c.closeTube(t)
}

// applyClose ends, in parts, what a client follows, its wait and its reservations. OpClose
// also ends its watch list and the client itself.
func (c *Core) applyClose(op *Op, r *Reply) {
	if op.Client != 0 {
		cl := c.clientAt(op.Client)
		c.unwait(cl)
		if cl.usesFunctions() && !c.unfollowSome(cl, boundedMax) {
			r.Status = StatusMore
			return
		}
		if !c.returnJobs(cl, boundedMax) {
			r.Status = StatusMore
			return
		}
		if op.Kind == OpClose && !c.closeClient(cl, boundedMax) {
			r.Status = StatusMore
			return
		}
	}
	if op.Kind == OpClose {
		c.unuse(op.Tube)
	}
}

// giveBack makes a job that cl held ready again, unless the tube's policy says otherwise, or it has
// lost its worker too often. It drops the job if it is unwanted.
func (c *Core) giveBack(t *tube, i uint32, j *Job, cl *client) {
	lost := j.isSubmitted() && cl.usesFunctions()
	switch {
	case j.isSubmitted() && c.unwanted(j):
		c.dropJob(t, i, j)
	case lost && c.loseWorker(t, i, j), c.fail(t, i, j, false):
	default:
		c.requeue(t, i, j, lost)
	}
}

// dropJob deletes a job that is in no container any more, without an OpDelete.
func (c *Core) dropJob(t *tube, i uint32, j *Job) {
	t.deletes++
	c.removeJob(t, i, j)
}

// removeJob is dropJob without counting a delete.
func (c *Core) removeJob(t *tube, i uint32, j *Job) {
	c.recordDelete(t, j)
	id := j.ID
	c.countOut(t, j)
	c.freeJob(i, j)
	c.finished(id)
	c.closeTube(t)
}

// finished tells the finisher, if there is one, of a job that ended without an OpDelete.
func (c *Core) finished(id JobID) {
	if c.ended != nil {
		c.ended(id)
	}
}

package core

// The operations of the job's life, one function each. Sources: protocol
// document of beanstalkd 1.13 and, where it is silent, prot.c's dispatch_cmd.

func (c *Core) applyPut(op *Op, r *Reply) {
	t := c.tubes[op.Tube]
	i, j := c.newJob(op)
	if i == 0 {
		r.Status = StatusOutOfMemory
		return
	}
	j.created = c.now
	j.pri, j.delay, j.ttr = op.Pri, op.Delay, op.TTR
	j.tube = t.id
	t.jobs++
	t.total++
	c.counts.Total++
	if op.Delay > 0 {
		c.enterDelayed(t, i, j, c.delayUntil(op.Delay))
		c.logNew(t, j)
		return
	}
	c.enterReady(t, i, j)
	c.logNew(t, j)
	c.match(t)
}

// delayUntil is when a delay of d seconds, set now, ends. Two delays never
// have the same now: of two jobs that one turn puts with the same delay, the
// one that was put first is to come first, whatever their ids.
func (c *Core) delayUntil(d uint32) Time {
	if c.now <= c.delayedAt {
		c.now = c.delayedAt + 1
	}
	c.delayedAt = c.now
	return c.now + Time(d)*Second
}

func (c *Core) applyReserve(op *Op, r *Reply) {
	cl := c.clients[op.Client]
	if !op.Multi || cl.seq != op.Seq {
		c.unwait(cl)
	}
	t := c.bestTube(cl)
	soon := t == nil && c.deadlineSoon(cl)
	if t != nil || soon {
		k := MaxKey
		if t != nil {
			k = t.best()
		}
		if op.Bound.Less(k) || op.Multi && !cl.waiter.stands(k) {
			r.Status = StatusElsewhere
			return
		}
		if op.Multi {
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

func (c *Core) applyReserveJob(op *Op, r *Reply) {
	i, j, t := c.find(op.ID)
	if i == 0 || j.state == Reserved {
		r.Status = StatusNotFound
		return
	}
	cl := c.clientFor(op)
	was := j.state
	c.leave(t, i, j)
	c.enterReserved(t, i, j, cl)
	if was != Ready && c.log != nil && !c.log.Full {
		c.logUpdate(t, j) // it comes back ready, not buried or delayed
	}
	c.replyJob(r, StatusReserved, j)
	r.Client = cl.id
}

func (c *Core) applyDelete(op *Op, r *Reply) {
	i, j, t := c.find(op.ID)
	if i == 0 || j.state == Reserved && (j.client != op.Client || op.Client == 0) {
		r.Status = StatusNotFound
		return
	}
	if j.isGear() {
		c.gearDeleted(j)
	}
	c.leave(t, i, j)
	c.logDelete(t, j)
	c.freeJob(i, j)
	t.jobs--
	t.deletes++
	c.closeTube(t)
}

func (c *Core) applyRelease(op *Op, r *Reply) {
	i, j, t := c.findHeld(op)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	c.leaveReserved(t, i, j)
	if j.isGear() && c.unwanted(j) {
		c.dropJob(t, i, j)
		return
	}
	j.pri, j.delay = op.Pri, op.Delay
	j.releases++
	if op.Delay > 0 {
		c.enterDelayed(t, i, j, c.delayUntil(op.Delay))
		c.logUpdate(t, j)
		return
	}
	c.enterReady(t, i, j)
	c.logUpdate(t, j)
	c.match(t)
}

func (c *Core) applyBury(op *Op, r *Reply) {
	i, j, t := c.findHeld(op)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	if j.isGear() && !c.gearOf(j).cancelled && c.unadmitted(j, op, r) {
		return
	}
	c.leaveReserved(t, i, j)
	if j.isGear() && c.gearOf(j).cancelled {
		c.dropJob(t, i, j)
		return
	}
	j.pri = op.Pri
	c.enterBuried(t, i, j)
	if j.isGear() {
		c.gearBuried(t, j)
	}
	c.logUpdate(t, j)
}

func (c *Core) applyTouch(op *Op, r *Reply) {
	i, j, t := c.findHeld(op)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	cl := c.clients[j.client]
	j.deadline = c.deadlineOf(j, t, cl)
	cl.due.set(c.jobs, int(j.pos), heapEntry{a: uint64(j.deadline), job: i})
	c.timers.want(&cl.timer, c.dueAt(&cl.timer))
}

// boundedMax is how many jobs one kick or one closing client may move in a
// visit; the caller comes again for the rest, and others get their turn.
const boundedMax = 1024

// applyKick kicks buried jobs if there is any, else delayed ones, never both;
// a further visit (KickMore) keeps to the choice of the first, even when
// others have emptied the buried list meanwhile.
func (c *Core) applyKick(op *Op, r *Reply) {
	t := c.tubes[op.Tube]
	delayed := op.KickDelayed || !op.KickMore && t.buried.n == 0
	r.KickDelayed = delayed
	for r.N < op.N {
		var i uint32
		switch {
		case delayed && t.delay.n > 0:
			i = t.delay.top().job
		case !delayed && t.buried.n > 0:
			i = t.buried.head
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

func (c *Core) applyKickJob(op *Op, r *Reply) {
	i, j, t := c.find(op.ID)
	if i == 0 || j.state != Buried && j.state != Delayed {
		r.Status = StatusNotFound
		return
	}
	c.kick(t, i)
}

// kick makes a buried or delayed job ready. Each is matched at once, so the
// oldest goes to who waits first, as in the reference.
func (c *Core) kick(t *tube, i uint32) {
	j := c.jobs.At(i)
	c.leave(t, i, j)
	j.kicks++
	c.enterReady(t, i, j)
	c.logUpdate(t, j)
	c.match(t)
}

func (c *Core) applyPeek(op *Op, r *Reply) {
	var i uint32
	switch op.Kind {
	case OpPeek:
		i, _ = c.ids.find(c.jobs, op.ID)
	case OpPeekReady:
		if t := c.tubes[op.Tube]; t.ready.n > 0 {
			i = t.ready.top().job
		}
	case OpPeekDelayed:
		if t := c.tubes[op.Tube]; t.delay.n > 0 {
			i = t.delay.top().job
		}
	case OpPeekBuried:
		i = c.tubes[op.Tube].buried.head
	}
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	c.replyJob(r, StatusFound, c.jobs.At(i))
}

// applyTube runs what a connection does to its used tube and watch list.
func (c *Core) applyTube(op *Op, r *Reply) {
	switch op.Kind {
	case OpUse:
		t := c.openTube(op.Name)
		t.using++
		c.unuse(op.Tube)
		r.Tube, r.Face = t.id, t.Face
	case OpUnuse:
		c.unuse(op.Tube)
	case OpMirror:
		r.Mirror = c.mirrorOf(c.tubes[op.Tube])
	case OpIgnore:
		cl := c.clients[op.Client]
		c.ignore(cl, c.watchAt(cl, c.tubes[op.Tube]))
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

func (c *Core) unuse(id TubeID) {
	if id == 0 {
		return
	}
	t := c.tubes[id]
	t.using--
	c.closeTube(t)
}

func (c *Core) applyClose(op *Op, r *Reply) {
	if op.Client != 0 {
		cl := c.clients[op.Client]
		c.unwait(cl)
		if cl.mail != nil && !c.leaveJobs(cl, boundedMax) {
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

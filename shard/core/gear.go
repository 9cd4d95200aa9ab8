package core

import "bytes"

// Submitted jobs. Sources: gearmand's PROTOCOL, and what gearmand 1.1.20 and 2.0.0
// were seen to do, except where they lose work.

// applyGear runs the operations of gearop.go.
func (c *Core) applyGear(op *Op, r *Reply) {
	switch op.Kind {
	case OpSubmit:
		c.submit(op, r)
	case OpGrab:
		c.grab(op, r)
	case OpReport:
		c.report(op, r)
	case OpRegister:
		c.register(op, r)
	case OpUnregister:
		c.unregister(op, r)
	case OpFunction:
		c.openFunction(op.Name).gear.created = true
	case OpDrop:
		r.Status = c.drop(op.Name)
	case OpLimit:
		if t := c.findTube(op.Name); t != nil && t.gear != nil {
			t.gear.limits = op.Gear.Limits
			c.closeTube(t) // if only its limits kept it
		}
	case OpJobStatus:
		_, j, _ := c.find(op.ID)
		c.status(j, op, r)
	case OpUniqueStatus:
		c.uniqueStatus(op, r)
	case OpCancelJob:
		c.cancel(op, r)
	case OpFunctions:
		c.functions(op.Gear, r)
	case OpListJobs:
		c.listJobs(op.Gear, r)
	default:
		panic("core: no such operation")
	}
}

// gearClient is clientFor for a Gearman session.
func (c *Core) gearClient(op *Op) *client {
	cl := c.clientFor(op)
	cl.mail = op.Gear.Mail
	return cl
}

func (c *Core) submit(op *Op, r *Reply) {
	x := op.Gear
	t := c.openFunction(op.Name)
	if sum, ok := c.gear.sumOf(op); ok {
		if i := c.findUnique(t, op, hashIn(t, sum)); i != 0 {
			c.join(t, i, op, r)
			return
		}
	}
	total := t.reserved + uint64(t.ready.n+t.delay.n)
	if most := t.gear.limits[classOf(op.Pri)]; most > 0 && total >= uint64(most) {
		r.Status = StatusFull
		c.closeTube(t)
		return
	}
	op.ID = x.Numbers.NextID()
	i, j := c.newJob(op)
	if i != 0 && !c.newGear(t, i, j, op) {
		c.freeJob(i, j)
		i = 0
	}
	if i == 0 {
		c.finished(op.ID)
		r.Status = StatusOutOfMemory
		c.closeTube(t)
		return
	}
	r.ID = j.id
	j.created = c.now
	j.pri = op.Pri
	j.tube = t.id
	t.jobs++
	t.total++
	c.counts.Total++
	if !x.Background {
		cl := c.gearClient(op)
		c.await(cl, i, c.gearOf(j))
		c.logNumber(t, j)
		r.Commit = max(r.Commit, j.commit())
		r.Client = cl.id
	}
	if x.Due > c.now {
		j.delay = uint32(min((x.Due-c.now+Second-1)/Second, 1<<32-1))
		c.enterDelayed(t, i, j, x.Due)
		c.logNew(t, j)
		return
	}
	c.enterReady(t, i, j)
	c.logNew(t, j)
	c.match(t)
}

// join adds a submission to a job that is there already, whose priority, body
// and time stay as they are.
func (c *Core) join(t *tube, i uint32, op *Op, r *Reply) {
	j := c.jobs.At(i)
	x := c.gearOf(j)
	if op.Gear.Background && c.unadmitted(j, op, r) {
		return
	}
	r.ID = j.id
	if !op.Gear.Background {
		cl := c.gearClient(op)
		c.await(cl, i, x)
		r.Client = cl.id
	} else if !x.background {
		x.background = true
		c.logNew(t, j)
	}
	r.Commit = max(r.Commit, j.commit())
}

// unadmitted reports whether op, which would have the submitted job j recorded in full,
// is to wait for room for its body.
func (c *Core) unadmitted(j *job, op *Op, r *Reply) bool {
	if c.log == nil || op.Admitted >= j.size || j.flags&flagLarge == 0 || c.gearOf(j).background {
		return false
	}
	r.Status, r.N = StatusUnadmitted, j.size
	return true
}

func (c *Core) grab(op *Op, r *Reply) {
	cl, t := c.clients[op.Client], c.tubes[op.Tube]
	switch {
	case t.readyPos == 0:
		r.Status = StatusTimedOut
		return
	case op.Bound.Less(t.best()):
		r.Status = StatusElsewhere
		return
	}
	j := c.reserve(t, cl)
	c.publish(t)
	c.replyJob(r, StatusReserved, j)
	op.Gear.SetUnique(nil)
	op.Gear.SetReducer(nil)
	if j.isGear() {
		x := c.gearOf(j)
		op.Gear.SetUnique(c.gear.uniqueOf(x))
		op.Gear.SetReducer(c.gear.reducerOf(x))
	}
}

// report: a job that was put has nobody who waits; its failure buries it, so that
// nothing is lost.
func (c *Core) report(op *Op, r *Reply) {
	i, j, t := c.findHeld(op)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	k := op.Gear.Relay
	keep := !j.isGear()
	if j.isGear() {
		x := c.gearOf(j)
		if k == RelayStatus {
			c.gear.setExtra(j.ttr, gearExtra{c.gear.extraOf(j.ttr).lost, op.Gear.Numerator, op.Gear.Denominator})
		}
		r.N = c.tell(j, x, k, op.Body, op.Large)
		keep = c.gear.opts.BuryFailed && x.background
	}
	if !k.Ends() {
		return
	}
	c.leaveReserved(t, i, j)
	if k == RelayDone || !keep {
		c.dropJob(t, i, j)
		return
	}
	c.keepBuried(t, i, j)
}

// keepBuried keeps a job that has failed and is in no container any more.
func (c *Core) keepBuried(t *tube, i uint32, j *job) {
	c.enterBuried(t, i, j)
	if j.isGear() {
		c.settled(j)
	}
	c.logIfRoom(t, j)
}

// dropJob ends a job that is in no container any more.
func (c *Core) dropJob(t *tube, i uint32, j *job) {
	c.logDelete(t, j)
	id := j.id
	c.freeJob(i, j)
	t.jobs--
	t.deletes++
	c.finished(id)
	c.closeTube(t)
}

func (c *Core) finished(id JobID) {
	if c.ended != nil {
		c.ended(id)
	}
}

// unwanted reports whether nobody would hear of the job's result, and nobody
// asked for it to be done all the same.
func (c *Core) unwanted(j *job) bool {
	x := c.gearOf(j)
	return x.cancelled || !x.background && x.waits == 0
}

// giveBack makes a job that cl does not hold any more ready again. One that its
// worker has lost goes to the tail of its priority, or fails if that was once too
// often.
func (c *Core) giveBack(t *tube, i uint32, j *job, cl *client) {
	if !j.isGear() {
		c.enterReady(t, i, j)
		c.match(t)
		return
	}
	if c.unwanted(j) {
		c.dropJob(t, i, j)
		return
	}
	if cl.mail == nil {
		c.enterReady(t, i, j)
		c.match(t)
		return
	}
	g := c.gear
	lost := g.extraOf(j.ttr).lost + 1
	if g.opts.Retries > 0 && lost >= g.opts.Retries {
		x := c.gearOf(j)
		c.tell(j, x, RelayFailed, nil, nil)
		if g.opts.BuryFailed && x.background {
			g.setExtra(j.ttr, gearExtra{})
			c.keepBuried(t, i, j)
		} else {
			c.dropJob(t, i, j)
		}
		return
	}
	g.setExtra(j.ttr, gearExtra{lost: lost})
	if g.tail != c.lastID {
		g.tail, g.turn = c.lastID, 0
	}
	g.turn++
	c.enterReadyAt(t, i, j, g.tail, g.turn)
	if g.opts.Retries > 0 {
		c.logIfRoom(t, j)
	}
	c.match(t)
}

// gearDeleted tells those who wait that a beanstalkd client has deleted the job:
// it has done it if it had reserved it.
func (c *Core) gearDeleted(j *job) {
	k := RelayFailed
	if j.state == Reserved {
		k = RelayDone
	}
	c.tell(j, c.gearOf(j), k, nil, nil)
}

// gearBuried: for those who wait, a buried job has failed.
func (c *Core) gearBuried(t *tube, j *job) {
	x := c.gearOf(j)
	c.tell(j, x, RelayFailed, nil, nil)
	c.settled(j)
	if !x.background {
		x.background = true // it is kept, whoever left
		c.logNew(t, j)
	}
}

// settled: the job is over for those who wait, though it is still there; who
// submits the same starts anew.
func (c *Core) settled(j *job) {
	x := c.gearOf(j)
	c.detach(x)
	c.gear.forget(j.ttr, x)
}

func (c *Core) cancel(op *Op, r *Reply) {
	i, j, t := c.find(op.ID)
	switch {
	case i == 0, j.state == Reserved && (!j.isGear() || c.gearOf(j).cancelled):
		r.Status = StatusNotFound
		return
	case j.isGear():
		c.tell(j, c.gearOf(j), RelayFailed, nil, nil)
		c.settled(j)
	}
	if j.state == Reserved {
		// Nor does it come back from the journal.
		c.logDelete(t, j)
		x := c.gearOf(j)
		x.cancelled, x.background = true, false
		return
	}
	c.leave(t, i, j)
	c.dropJob(t, i, j)
}

// status tells about j, which may be nil.
func (c *Core) status(j *job, op *Op, r *Reply) {
	x := op.Gear
	if j == nil {
		r.Status = StatusNotFound
		return
	}
	r.ID, r.Commit = j.id, j.commit()
	x.Running = j.state == Reserved
	x.Numerator, x.Denominator, x.Clients = 0, 0, 0
	if !j.isGear() {
		return
	}
	e := c.gear.extraOf(j.ttr)
	x.Numerator, x.Denominator, x.Clients = e.numerator, e.denominator, c.gear.waits[c.gearOf(j).waits].n
}

// uniqueStatus tells about the newest job of any function with op's unique id. It
// looks at a bounded number of jobs a visit, or a group's more.
func (c *Core) uniqueStatus(op *Op, r *Reply) {
	c.gearUp()
	sum, ok := c.gear.sumOf(op)
	var newest *job
	groups, looked := uint64(min(uniqueGroups, len(c.tubes))), 0
	x := op.Gear
	for ; ok && x.Cursor < groups && looked < boundedMax; x.Cursor++ {
		looked++
		c.gear.unique.find(c.gear.jobs, hashAmong(uint32(x.Cursor), sum), func(n uint32) bool {
			looked++
			g := c.gear.jobs.At(n)
			if g.byBody || !bytes.Equal(c.gear.uniqueOf(g), x.Unique()) {
				return false
			}
			if j := c.jobs.At(g.job); newest == nil || j.id > newest.id {
				newest = j
			}
			return false // there may be others
		})
	}
	c.status(newest, op, r)
	if ok && x.Cursor < groups {
		r.Status = StatusMore
	}
}

// listMax jobs, or a bucket more, are listed in a visit.
const listMax = 512

func (c *Core) listJobs(x *Gear, r *Reply) {
	for ; x.Cursor < uint64(c.ids.size); x.Cursor++ {
		if len(x.Jobs) >= listMax {
			r.Status = StatusMore
			return
		}
		for i := *c.ids.head(x.Cursor); i != 0; {
			j := c.jobs.At(i)
			s := SubmittedJob{ID: j.id, Background: true}
			if j.isGear() {
				g := c.gearOf(j)
				s.Lost, s.Background, s.Unique = c.gear.extraOf(j.ttr).lost, g.background, string(c.gear.uniqueOf(g))
			}
			x.Jobs = append(x.Jobs, s)
			i = j.hash
		}
	}
}

package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/access"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// register makes the connection a worker of a function, or changes its timeout there.
func (c *conn) register(timeout core.Time) {
	c.AddRole(session.Worker)
	shard := c.places().OfTube(c.m.Args[0])
	c.Op().Register(c.handles.Client(shard), c.m.Args[0], timeout, c.sleeping)
	c.runOn(shard, (*conn).registered)
}

// registered takes the reply. The shard itself has counted a sleeping worker among its sleepers:
// if the count were made here, the worker would miss a job that becomes ready before a busy
// shard's reply is taken. As in gearmand, the worker is not notified of older jobs.
func (c *conn) registered(r *core.Reply) {
	c.Op().Name = nil
	if r.Status != core.StatusOK {
		c.fail(gearman.ErrorQueue)
		return
	}
	if r.N == 0 {
		return // it was a worker already
	}
	a := ability{Face: r.Face, sleepers: c.op.Sleepers}
	if c.Op().N == 1 && !c.sleeping {
		a.sleepers.Add(-1) // another function's job has woken it meanwhile
	}
	c.handles.In(c.Visited()).Watching++
	a.number = c.front.directory.addFunction(c.entry, a.Name())
	c.abilities.add(a)
	if c.Credential().Verbs([]byte(a.Name()))&access.Work == 0 { // since a reload
		c.Abort()
	}
}

// unregister removes the ability at a position.
func (c *conn) unregister(i int) {
	a := c.abilities.Delete(i)
	if c.sleeping {
		a.sleepers.Add(-1)
	}
	shard := c.places().OfSlot(a.Slot())
	c.handles.In(shard).Watching--
	c.front.directory.removeFunction(c.entry, a.number)
	c.forget(shard, a.ID(), (*conn).unregistered)
}

// forget unregisters the connection as a worker of a tube in a shard; tube zero means all tubes
// there.
func (c *conn) forget(shard int, tube core.TubeID, then func(*conn, *core.Reply)) {
	c.Op().Unregister(c.handles.Client(shard), tube)
	c.runOn(shard, then)
}

func (c *conn) unregistered(r *core.Reply) {
	if r.Status == core.StatusMore && !c.Broken() { // Close does the rest of a broken one
		c.visitLater(0)
	}
}

// reset unregisters all functions, one shard at a time.
func (c *conn) reset() {
	if c.sleeping {
		c.abilities.sleep(-1)
	}
	c.abilities = abilities{}
	c.front.directory.removeFunctions(c.entry)
	c.resetNext()
}

func (c *conn) resetNext() {
	for i := range c.handles.Len() {
		if h := c.handles.At(i); h.Watching > 0 {
			h.Watching = 0
			c.forget(h.Shard(), 0, (*conn).resetOne)
			return
		}
	}
}

// resetOne takes the reply of one shard.
func (c *conn) resetOne(r *core.Reply) {
	switch {
	case c.Broken(): // Close does the rest
	case r.Status == core.StatusMore:
		c.visitLater(0)
	default:
		c.resetNext()
	}
}

// preSleep runs PRE_SLEEP: the next job sends NOOP to the connection. If a job is ready already,
// NOOP comes at once. There is no second NOOP before the worker grabs (source: gearmand). The
// connection counts itself as sleeping before it looks for jobs, and a shard publishes a job
// before it looks for sleepers, so no job is missed.
func (c *conn) preSleep() {
	fell := c.mail.Sleep()
	if fell {
		c.sleeping = true
		c.AddRole(session.Sleeper)
		c.abilities.sleep(1)
	}
	if at, _ := c.best(); at >= 0 {
		if fell {
			c.wake() // a worker that slept before continues to sleep, as in gearmand
		}
		c.SetOut(gearman.AppendNoop(c.Out()))
	}
}

// wake ends the connection's sleep, and cancels a NOOP that is on its way.
func (c *conn) wake() {
	c.mail.Wake()
	c.endSleep()
}

// endSleep removes the connection from the count of sleepers.
func (c *conn) endSleep() {
	if !c.sleeping {
		return
	}
	c.sleeping = false
	c.DropRole(session.Sleeper)
	c.abilities.sleep(-1)
}

// best is abilities.best after the shards have caught up with their timers.
func (c *conn) best() (at, class int) {
	for i := range c.handles.Len() {
		if h := c.handles.At(i); h.Watching > 0 {
			c.places().Shard(h.Shard()).Catchup(c.Loop().Batch())
		}
	}
	c.Spend(len(c.abilities.List) / 16)
	return c.abilities.best()
}

// grab wakes the connection and grabs a job.
func (c *conn) grab() {
	c.wake()
	c.grabBest()
}

// grabBest visits the shard of the best job. It is repeated if another client gets the job first.
func (c *conn) grabBest() {
	if c.Broken() {
		return // a grabbed job would lose its worker at once
	}
	at, class := c.best()
	if at < 0 {
		c.SetOut(gearman.AppendNoJob(c.Out()))
		return
	}
	a := &c.abilities.List[at]
	c.grabbing = at
	last := core.Key{Pri: core.ClassLast[class], ID: core.MaxKey.ID}
	shard := c.places().OfSlot(a.Slot())
	c.Op().Grab(c.handles.Client(shard), a.ID(), last)
	c.runOn(shard, (*conn).grabbed)
}

func (c *conn) grabbed(r *core.Reply) {
	if r.Status != core.StatusReserved {
		c.afterwards((*conn).grabBest)
		return
	}
	if r.ID == c.excepted {
		c.excepted = 0 // this is its next attempt
	}
	a := &c.abilities.List[c.grabbing]
	c.SetOut(gearman.AppendAssignHead(c.Out(), c.m.Type, &gearman.Assignment{
		Handle: c.handleOf(r.ID), Function: a.Name(),
		Unique: c.op.Unique(), Reducer: c.op.Reducer(), Size: len(r.Body) + r.Large.Len(),
	}))
	c.SetOut(append(c.Out(), r.Body...))
	if r.Large != nil {
		c.SendLarge(r.Large, "")
	}
	c.abilities.serve(c.grabbing) // other functions of the class come first now
}

// relayOf returns the kind of relay for a report, except WORK_STATUS, to the clients of the job.
func relayOf(t gearman.Type) core.RelayKind {
	switch t {
	case gearman.WorkWarning:
		return core.RelayWarning
	case gearman.WorkComplete:
		return core.RelayDone
	case gearman.WorkFail:
		return core.RelayFailed
	case gearman.WorkException:
		return core.RelayException
	}
	return core.RelayData
}

// report handles a worker's report about a job that it runs.
func (c *conn) report(body []byte, large core.Large) {
	m := &c.m
	if m.Type == gearman.WorkFail && c.failsAgain(m.Args[0]) {
		return
	}
	client := core.ClientID(0)
	id, shard, ok := c.find(m.Args[0])
	if ok {
		client = c.handles.Client(shard)
	}
	if client == 0 {
		c.fail(gearman.NoJobError(m.Type))
		c.EndBody()
		return
	}
	if m.Type == gearman.WorkStatus {
		c.args = append(c.args[:0], m.Args[1]...)
		c.args = append(append(c.args, 0), m.Args[2]...)
		c.Op().ReportStatus(client, id, m.Numerator, m.Denominator, c.args)
	} else {
		c.Op().Report(client, id, relayOf(m.Type), body, large)
	}
	c.runOn(shard, (*conn).reported)
}

// failsAgain reports whether a WORK_FAIL is for the job that the worker has just ended by
// WORK_EXCEPTION. Some workers send both, and exit after an ERROR reply.
func (c *conn) failsAgain(handle []byte) bool {
	n, ours := gearman.ParseHandle(c.front.cfg.Load().Prefix, handle)
	if !ours || core.JobID(n) != c.excepted { // ids begin at 1
		return false
	}
	c.excepted = 0
	return true
}

func (c *conn) reported(r *core.Reply) {
	op := c.Op()
	op.Body, op.Large = nil, nil
	c.EndBody()
	c.Spend(int(r.N))
	switch {
	case r.Status == core.StatusNotFound:
		c.fail(gearman.NoJobError(c.m.Type))
	case c.m.Type == gearman.WorkException:
		c.excepted = op.ID
	}
}

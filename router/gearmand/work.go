package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// register makes the connection a worker of a function, or gives it another timeout
// there.
func (c *conn) register(timeout core.Time) {
	c.AddRole(session.Worker)
	shard := c.places().OfTube(c.m.Args[0])
	c.Op().Register(c.handles.Client(shard), c.m.Args[0], timeout, c.sleeping)
	c.runOn(shard, (*conn).registered)
}

// registered takes the reply. A worker that sleeps was counted as sleeping there by the
// shard itself: were it counted here, a job that came after a busy shard had gone on and
// before its reply was taken would have woken nobody. Of a job that was there before it is
// not told, as by gearmand.
func (c *conn) registered(r *core.Reply) {
	c.Op().Name = nil
	if r.Status != core.StatusOK {
		c.fail(gearman.ErrorQueue)
		return
	}
	if r.N == 0 {
		return // it was one
	}
	a := ability{Tube: c.places().TubeOf(r.Face), mirror: r.Mirror, sleepers: c.op.Sleepers}
	if c.Op().N == 1 && !c.sleeping {
		a.sleepers.Add(-1) // it was told of a job elsewhere meanwhile
	}
	c.handles.In(a.Shard).Watching++
	a.number = c.front.directory.addFunction(c.entry, a.Name)
	c.abilities.add(a)
}

// unregister ends that for the ability at a position.
func (c *conn) unregister(i int) {
	a := c.abilities.remove(i)
	if c.sleeping {
		a.sleepers.Add(-1)
	}
	c.handles.In(a.Shard).Watching--
	c.front.directory.removeFunction(c.entry, a.number)
	c.forget(a.Shard, a.ID, (*conn).unregistered)
}

// forget has a shard forget that the connection is a worker of a function there, or of
// any: of tube zero.
func (c *conn) forget(shard int, tube core.TubeID, then func(*conn, *core.Reply)) {
	c.Op().Unregister(c.handles.Client(shard), tube)
	c.runOn(shard, then)
}

func (c *conn) unregistered(r *core.Reply) {
	if r.Status == core.StatusMore && !c.Broken() { // else closing does the rest
		c.visitLater(0)
	}
}

// reset unregisters all functions, those of one shard at a time.
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
	case c.Broken(): // closing does the rest
	case r.Status == core.StatusMore:
		c.visitLater(0)
	default:
		c.resetNext()
	}
}

// preSleep: from now on the connection hears of a job, unless there is one already or it
// has heard of one and not grabbed since (source: gearmand, which sends no second NOOP until
// the worker grabs). It counts itself as sleeping first and looks then, and a shard
// publishes first and looks for sleepers then, so no job falls in between.
func (c *conn) preSleep() {
	fell := c.mail.Sleep()
	if fell {
		c.sleeping = true
		c.AddRole(session.Sleeper)
		c.abilities.sleep(1)
	}
	if at, _ := c.best(); at >= 0 {
		if fell {
			c.wake() // who slept before sleeps on, as in gearmand
		}
		out := c.Out()
		*out = gearman.AppendNoop(*out)
	}
}

// wake ends the connection's sleep. A NOOP that is under way is taken back.
func (c *conn) wake() {
	c.mail.Wake()
	c.endSleep()
}

// endSleep takes the connection off the count of sleepers.
func (c *conn) endSleep() {
	if !c.sleeping {
		return
	}
	c.sleeping = false
	c.DropRole(session.Sleeper)
	c.abilities.sleep(-1)
}

// best is abilities.best as of now.
func (c *conn) best() (at, class int) {
	for i := range c.handles.Len() {
		if h := c.handles.At(i); h.Watching > 0 {
			c.places().Shard(h.Shard()).Catchup(c.Loop().Batch())
		}
	}
	c.Spend(len(c.abilities.list) / 16)
	return c.abilities.best()
}

// grab wakes the connection up and takes a job.
func (c *conn) grab() {
	c.wake()
	c.grabBest()
}

// grabBest visits the shard of the best job. Should another be quicker, it is called
// again.
func (c *conn) grabBest() {
	if c.Broken() {
		return // what it grabbed now would be lost at once
	}
	at, class := c.best()
	if at < 0 {
		out := c.Out()
		*out = gearman.AppendNoJob(*out)
		return
	}
	a := &c.abilities.list[at]
	c.grabbing = at
	last := core.Key{Pri: core.ClassLast[class], ID: core.MaxKey.ID}
	c.Op().Grab(c.handles.Client(a.Shard), a.ID, last)
	c.runOn(a.Shard, (*conn).grabbed)
}

func (c *conn) grabbed(r *core.Reply) {
	if r.Status != core.StatusReserved {
		c.afterwards((*conn).grabBest)
		return
	}
	a, out := &c.abilities.list[c.grabbing], c.Out()
	*out = gearman.AppendAssignHead(*out, c.m.Type, &gearman.Assignment{
		Handle: c.handleOf(r.ID), Function: a.Name,
		Unique: c.op.Unique(), Reducer: c.op.Reducer(), Size: len(r.Body) + r.Large.Len(),
	})
	*out = append(*out, r.Body...)
	if r.Large != nil {
		c.SendLarge(r.Large, "")
	}
	c.abilities.serve(c.grabbing) // the others of its class come first now
}

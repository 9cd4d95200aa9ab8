package router

import (
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// register makes the connection a worker of a function, or gives it another
// timeout there.
func (g *gearSession) register(timeout core.Time) {
	s, op := g.s, &g.s.req.Op
	s.setWorker()
	sh := s.loop.srv.places.OfTube(g.m.Args[0])
	g.op.Timeout = timeout
	op.Kind, op.Client, op.Name = core.OpRegister, s.clientAt(sh), g.m.Args[0]
	s.submit(sh, stepGearRegister)
}

func (g *gearSession) registered(r *core.Reply) {
	g.s.req.Op.Name = nil
	if r.Status != core.StatusOK {
		g.s.loop.out = gearman.AppendError(g.s.loop.out, gearman.ErrorQueue)
		return
	}
	if r.N == 0 {
		return // it was one
	}
	a := ability{Tube: g.s.loop.srv.places.TubeOf(r.Face), mirror: r.Mirror, sleepers: g.op.Sleepers}
	if g.sleeping {
		a.sleepers.Add(1)
	}
	g.s.linkTo(a.Shard).watching++
	a.number = g.s.loop.srv.gearDir.addFunction(g.entry, a.Name)
	g.abilities.add(a)
}

func (g *gearSession) unregister(i int) {
	s := g.s
	a := g.abilities.remove(i)
	if g.sleeping {
		a.sleepers.Add(-1)
	}
	s.linkTo(a.Shard).watching--
	s.loop.srv.gearDir.removeFunction(g.entry, a.number)
	g.forget(a.Shard, a.ID, stepGearUnregister)
}

// forget has a shard forget that the connection is a worker of a function there,
// or of any: of tube zero.
func (g *gearSession) forget(sh int, tube core.TubeID, st step) {
	op := &g.s.req.Op
	op.Kind, op.Client, op.Tube = core.OpUnregister, g.s.clientAt(sh), tube
	g.op.Cursor = 0
	g.s.submit(sh, st)
}

// reset unregisters all functions, those of one shard at a time.
func (g *gearSession) reset() {
	if g.sleeping {
		g.abilities.sleep(-1)
	}
	g.abilities = abilities{}
	g.s.loop.srv.gearDir.removeFunctions(g.entry)
	g.resetNext()
}

func (g *gearSession) resetNext() {
	for i := range g.s.links {
		if l := &g.s.links[i]; l.watching > 0 {
			l.watching = 0
			g.forget(l.shard, 0, stepGearReset)
			return
		}
	}
}

func (g *gearSession) unregistered(r *core.Reply) {
	switch {
	case g.s.dying: // closing does the rest
	case r.Status == core.StatusMore:
		g.s.submitLater(g.s.step)
	case g.s.step == stepGearReset:
		g.resetNext()
	}
}

// preSleep: from now on the connection hears of a job, unless there is one already
// or it has heard of one and not grabbed since. It counts itself as sleeping first
// and looks then, and a shard publishes first and looks for sleepers then, so no
// job falls in between.
func (g *gearSession) preSleep() {
	l := g.s.loop
	fell := g.mail.Sleep()
	if fell {
		g.sleeping = true
		g.abilities.sleep(1)
	}
	if at, _ := g.best(); at >= 0 {
		if fell {
			g.wake() // who slept before sleeps on, as in gearmand
		}
		l.out = gearman.AppendNoop(l.out)
	}
}

// wake ends the connection's sleep. A NOOP that is under way is taken back.
func (g *gearSession) wake() {
	g.mail.Wake()
	g.stir()
}

// stir takes the connection off the count of sleepers.
func (g *gearSession) stir() {
	if !g.sleeping {
		return
	}
	g.sleeping = false
	g.abilities.sleep(-1)
}

// best is abilities.best as of now.
func (g *gearSession) best() (at, class int) {
	l := g.s.loop
	for i := range g.s.links {
		if k := &g.s.links[i]; k.watching > 0 {
			l.srv.places.Shard(k.shard).Catchup(&l.batch)
		}
	}
	l.round.budget -= len(g.abilities.list) / 16
	return g.abilities.best()
}

// grab wakes the connection up and takes a job.
func (g *gearSession) grab() {
	g.wake()
	g.grabNext()
}

// grabNext visits the shard of the best job. Should another be quicker, it is
// called again.
func (g *gearSession) grabNext() {
	s, op := g.s, &g.s.req.Op
	at, class := g.best()
	if at < 0 {
		s.loop.out = gearman.AppendNoJob(s.loop.out)
		return
	}
	a := &g.abilities.list[at]
	g.at = at
	op.Kind, op.Client, op.Tube = core.OpGrab, s.clientAt(a.Shard), a.ID
	op.Bound = core.Key{Pri: core.ClassLast[class], ID: core.MaxKey.ID}
	s.submit(a.Shard, stepGearGrab)
}

func (g *gearSession) grabbed(r *core.Reply) {
	s := g.s
	if r.Status != core.StatusReserved {
		s.reprobe = true
		return
	}
	a := &g.abilities.list[g.at]
	size := len(r.Body)
	if r.Large != nil {
		size = r.Large.Len()
	}
	s.loop.out = gearman.AppendAssignHead(s.loop.out, g.m.Type, &gearman.Assignment{
		Handle: g.handleOf(r.ID), Function: a.Name,
		Unique: g.op.Unique(), Reducer: g.op.Reducer(), Size: size,
	})
	s.loop.out = append(s.loop.out, r.Body...)
	s.large = r.Large
	g.abilities.serve(g.at) // the others of its class come first now
}

// relayOf is what a report is to those who wait for the job.
func relayOf(t gearman.Type) core.RelayKind {
	switch t {
	case gearman.WorkWarning:
		return core.RelayWarning
	case gearman.WorkStatus:
		return core.RelayStatus
	case gearman.WorkComplete:
		return core.RelayDone
	case gearman.WorkFail:
		return core.RelayFailed
	case gearman.WorkException:
		return core.RelayException
	}
	return core.RelayData
}

// report takes what a worker says about a job that it runs.
func (g *gearSession) report(body []byte, large core.Large) {
	s, m, op := g.s, &g.m, &g.s.req.Op
	id, sh, ok := g.find(m.Args[0])
	if m.Type == gearman.WorkFail {
		n, ours := gearman.ParseHandle(s.loop.srv.cfg.Gearman.Prefix, m.Args[0])
		if ours && core.JobID(n) == g.excepted { // ids begin at 1
			g.excepted = 0
			return // some workers send both, and die of an ERROR
		}
	}
	client := core.ClientID(0)
	if ok {
		client = s.clientAt(sh)
	}
	if client == 0 {
		s.loop.out = gearman.AppendError(s.loop.out, gearman.NoJobError(m.Type))
		s.endBody()
		return
	}
	op.Kind, op.Client, op.ID = core.OpReport, client, id
	op.Body, op.Large = body, large
	g.op.Relay = relayOf(m.Type)
	if m.Type == gearman.WorkStatus {
		g.op.Numerator, g.op.Denominator = m.Numerator, m.Denominator
		g.keep = append(g.keep[:0], m.Args[1]...)
		g.keep = append(append(g.keep, 0), m.Args[2]...)
		op.Body = g.keep
	}
	s.submit(sh, stepGearReport)
}

func (g *gearSession) reported(r *core.Reply) {
	s := g.s
	id := s.req.Op.ID
	s.req.Op.Body, s.req.Op.Large = nil, nil
	s.endBody()
	s.loop.round.budget -= int(r.N)
	switch {
	case r.Status == core.StatusNotFound:
		s.loop.out = gearman.AppendError(s.loop.out, gearman.NoJobError(g.m.Type))
	case g.m.Type == gearman.WorkException:
		g.excepted = id
	}
}

package core

func (c *Core) applyStats(op *Op, r *Reply) {
	switch op.Kind {
	case OpStatsJob:
		i, j, t := c.find(op.ID)
		if i == 0 {
			r.Status = StatusNotFound
			return
		}
		*op.JobStats = c.jobStats(j, t)
		r.Commit = j.commit()
	case OpStatsTube:
		t := c.findTube(op.Name)
		if t == nil {
			r.Status = StatusNotFound
			return
		}
		*op.TubeStats = c.tubeStats(t)
	case OpStats:
		*op.Counts = c.Counts()
	}
}

func (c *Core) jobStats(j *job, t *tube) JobStats {
	s := JobStats{
		ID: j.id, Tube: t.name, State: j.state,
		Pri: j.pri, Delay: j.delay, TTR: c.ttrOf(j),
		Age:      c.now - j.created,
		Reserves: j.reserves, Timeouts: j.timeouts, Releases: j.releases,
		Buries: j.buries, Kicks: j.kicks,
		Commit: j.commit(),
	}
	switch j.state { // Expire may be behind
	case Reserved:
		s.TimeLeft = max(0, j.deadline-c.awake())
	case Delayed:
		s.TimeLeft = max(0, j.deadline-c.now)
	}
	return s
}

func (c *Core) tubeStats(t *tube) TubeStats {
	s := TubeStats{
		Name:   t.name,
		Urgent: t.urgent, Ready: uint64(t.ready.n), Reserved: t.reserved,
		Delayed: uint64(t.delay.n), Buried: uint64(t.buried.n),
		Using: uint64(t.using), Watching: uint64(t.watching), Waiting: uint64(t.waiters.n),
		Total: t.total, Deletes: t.deletes, Pauses: t.pauses,
	}
	if t.pauseUntil != 0 {
		s.Pause, s.PauseLeft = t.pauseFor, max(0, t.pauseUntil-c.now)
	}
	return s
}

// Counts sums up the core.
func (c *Core) Counts() Counts {
	n := c.counts.Counts
	n.Tubes = uint64(len(c.tubes) - 1 - len(c.freeTubes))
	n.Clients = uint64(len(c.clients) - 1 - len(c.freeClients))
	n.MappedBytes = uint64(c.jobs.MappedBytes() + c.bodies.MappedBytes() + c.watches.MappedBytes())
	if g := c.gear; g != nil {
		n.MappedBytes += uint64(g.jobs.MappedBytes() + g.texts.MappedBytes())
	}
	return n
}

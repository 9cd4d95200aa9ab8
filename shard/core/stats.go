package core

import (
	"iter"

	"polystalk/shard/stats"
)

// applyStats fills the result that the operation points to.
func (c *Core) applyStats(op *Op, r *Reply) {
	switch op.Kind {
	case OpStatsJob:
		i, j, t := c.find(op.ID)
		if i == 0 {
			r.Status = StatusNotFound
			return
		}
		*op.JobStats = c.jobStats(j, t)
		r.Commit = j.Commit()
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

// jobStats returns the statistics of a job.
func (c *Core) jobStats(j *Job, t *tube) JobStats {
	s := JobStats{
		ID: j.ID, Tube: t.name, State: j.State,
		Pri: j.Pri, Delay: j.Delay, TTR: c.ttrOf(j),
		Age:      c.now - j.Created,
		Reserves: j.Reserves, Timeouts: j.Timeouts, Releases: j.Releases,
		Buries: j.Buries, Kicks: j.Kicks,
		Commit: j.Commit(),
	}
	switch j.State { // a timer may be late, hence max
	case Reserved:
		if !isTaken(j) {
			s.TimeLeft = max(0, c.dueOf(j)-c.awake())
		}
	case Delayed:
		s.TimeLeft = max(0, c.dueOf(j)-c.now)
	}
	return s
}

// tubeStats returns the statistics of a tube.
func (c *Core) tubeStats(t *tube) TubeStats {
	s := TubeStats{
		Name:   t.name,
		Urgent: uint64(t.urgent), Ready: uint64(t.ready.N), Reserved: uint64(t.reserved),
		Delayed: uint64(t.delay.N), Buried: uint64(t.buried.N),
		Using: uint64(t.using), Watching: uint64(t.watching), Waiting: uint64(t.waiters.n),
		Total: t.total, Deletes: t.deletes, Pauses: t.pauses,
	}
	if t.pauseUntil != 0 {
		s.Pause, s.PauseLeft = Time(t.pauseFor)*Second, max(0, t.pauseUntil-c.now)
	}
	return s
}

// Counts sums up the core.
func (c *Core) Counts() Counts {
	k := &c.counts
	n := Counts{
		Urgent: k.Urgent, Ready: k.Ready, Reserved: k.Reserved, Delayed: k.Delayed, Buried: k.Buried,
		Total: k.Total, Timeouts: k.Timeouts,
	}
	n.Tubes = uint64(len(c.tubes) - 1 - len(c.freeTubes))
	n.Clients = uint64(len(c.clients) - 1 - len(c.freeClients))
	n.MappedBytes = uint64(c.jobs.MappedBytes() + c.bodies.MappedBytes() + c.watches.MappedBytes())
	if g := c.submissions; g != nil {
		n.MappedBytes += uint64(g.jobs.MappedBytes() + g.texts.MappedBytes())
	}
	return n
}

// JobStats is the result of stats-job.
type JobStats struct {
	ID                                          JobID
	Tube                                        string
	State                                       State
	Pri, Delay, TTR                             uint32 // seconds
	Age, TimeLeft                               Time
	Reserves, Timeouts, Releases, Buries, Kicks uint32
	Commit                                      uint64 // of the journal, with the whole job; see Reply.Commit
}

// TubeStats is the result of stats-tube.
type TubeStats struct {
	Name                                     string
	Urgent, Ready, Reserved, Delayed, Buried uint64
	Using, Watching, Waiting                 uint64
	Total, Deletes, Pauses                   uint64
	Pause, PauseLeft                         Time
}

// Counts sums up one core, for the server's stats.
type Counts struct {
	Urgent, Ready, Reserved, Delayed, Buried uint64
	Total, Timeouts                          uint64
	Tubes, Clients                           uint64
	MappedBytes                              uint64 // memory outside the collector's heap
}

// Add adds d to c, for sums over shards.
func (c *Counts) Add(d *Counts) {
	c.Urgent += d.Urgent
	c.Ready += d.Ready
	c.Reserved += d.Reserved
	c.Delayed += d.Delayed
	c.Buried += d.Buried
	c.Total += d.Total
	c.Timeouts += d.Timeouts
	c.Tubes += d.Tubes
	c.Clients += d.Clients
	c.MappedBytes += d.MappedBytes
}

// coreSums has the sums of the flows of all tubes of a core. Nearly every operation writes it,
// so it fills whole cache lines, which no two cores share.
type coreSums struct {
	stats.Totals
	arrived int64 // the sum of tube.arrived over all tubes so far

	_ [48]byte // to whole cache lines
}

// flowOf returns the flow of t. The first event that it counts makes it, so tubes that only
// store jobs need no memory for it.
func (t *tube) flowOf() *stats.Flow {
	if t.flow == nil {
		t.beginFlow()
	}
	return t.flow
}

//go:noinline
func (t *tube) beginFlow() { t.flow = new(stats.Flow) }

// count counts an event in t.
func (c *Core) count(t *tube, e stats.Event) {
	t.flowOf().Count(e)
	c.sums.Count(e)
}

// since is how many nanoseconds j has been in its state, for a Flow.
func (c *Core) since(j *Job) (ns int64) { return int64(c.now - j.Since) }

// dueOf returns when j is due: of a delayed job in core time, of a reserved one in time awake.
// For a taken job it is when the delay ends, if it was delayed.
func (c *Core) dueOf(j *Job) Time {
	if isTaken(j) {
		return Time(c.moving[j.ID].at)
	}
	if j.State == Reserved {
		return Time(c.clients[j.Client].due.At(int(j.Pos)).A)
	}
	return Time(c.tubes[j.Tube].delay.At(int(j.Pos)).A)
}

// A Flow counts the events of a tube since it was made, or of a whole core since the process
// started.
type Flow struct {
	Puts, Deletes uint64 // without moves, which make no job and end none
	Events        [stats.Events]uint64
	Wait, Run     stats.Times

	// Only for a tube:

	Bytes   uint64 // of the bodies in the tube
	Oldest  Time   // age of the oldest ready job
	Waiting bool   // there is a ready job
}

// Add adds the flow of another tube or core.
func (f *Flow) Add(g *Flow) {
	f.Puts += g.Puts
	f.Deletes += g.Deletes
	for e, n := range g.Events {
		f.Events[e] += n
	}
	f.Wait.Add(&g.Wait)
	f.Run.Add(&g.Run)
	f.Bytes += g.Bytes
	f.Oldest = max(f.Oldest, g.Oldest)
	f.Waiting = f.Waiting || g.Waiting
}

// read copies the counters of f.
func (g *Flow) read(f interface {
	Of(stats.Event) uint64
	Wait() stats.Times
	Run() stats.Times
}) {
	for e := range g.Events {
		g.Events[e] = f.Of(stats.Event(e))
	}
	g.Wait, g.Run = f.Wait(), f.Run()
}

// oldest returns the age of the oldest ready job.
func (c *Core) oldest(t *tube) (age Time, ok bool) {
	i := t.readyList.Head
	if i == 0 {
		return 0, false
	}
	return max(0, c.now-c.jobs.At(i).Since), true
}

// applyFlow fills the Flow of a tube, or of the core.
func (c *Core) applyFlow(op *Op, r *Reply) {
	g := &op.Operator.Flow
	*g = Flow{}
	if op.Name == nil {
		g.Puts, g.Deletes = c.counts.Total, c.counts.Total+uint64(c.sums.arrived)-uint64(c.jobCount())
		g.read(&c.sums.Totals)
		return
	}
	t := c.findTube(op.Name)
	if t == nil {
		r.Status = StatusNotFound
		return
	}
	g.Puts, g.Deletes, g.Bytes = t.total, t.deletes, t.bytes
	g.Oldest, g.Waiting = c.oldest(t)
	op.Operator.Tubes = append(op.Operator.Tubes, c.tubeRow(t))
	if t.flow != nil {
		g.read(t.flow)
	}
}

// A JobView is one job as an inspector sees it.
type JobView struct {
	ID       JobID
	Tube     string
	State    State
	Pri      uint32
	Client   ClientID // the client that reserved it, or zero
	Deadline Time     // zero when ready or buried
	Since    Time     // when it entered its state
	Moves    uint32   // how often it was reserved, released, buried, kicked, or has timed out
	Body     []byte   // good until the next operation
}

// A TubeView is one tube as an inspector sees it.
type TubeView struct {
	ID                       TubeID
	Name                     string
	Pinned, Held, Function   bool // it stays without users; nothing can be reserved from it
	Jobs, Ready              int
	Using, Watching, Waiting int
}

// A ClientView is one client as an inspector sees it.
type ClientView struct {
	ID      ClientID
	Watches []string
	Held    int
	Waiting bool
}

// Jobs walks all jobs, in no order.
func (c *Core) Jobs() iter.Seq[JobView] {
	return func(yield func(JobView) bool) {
		for b := range uint64(c.ids.Size) {
			for i := *c.ids.head(b); i != 0; {
				j := c.jobs.At(i)
				if i = j.Hash; c.isFlushed(j) {
					continue
				}
				v := JobView{ID: j.ID, Tube: c.tubes[j.Tube].name, State: j.State, Pri: j.Pri, Since: j.Since, Body: c.bodyOf(j)}
				v.Moves = j.Reserves + j.Timeouts + j.Releases + j.Buries + j.Kicks
				switch j.State {
				case Delayed:
					v.Deadline = c.dueOf(j)
				case Reserved:
					if v.Client = j.Client; !isTaken(j) {
						v.Deadline = c.dueOf(j)
					}
				}
				if !yield(v) {
					return
				}
			}
		}
	}
}

// Tubes walks all tubes.
func (c *Core) Tubes() iter.Seq[TubeView] {
	return func(yield func(TubeView) bool) {
		for _, t := range c.tubes {
			if t != nil && !yield(TubeView{
				ID: t.id, Name: t.name, Pinned: t.pinned || t.policy != nil && t.policy.spent, Held: t.held() != NotHeld, Function: t.function != nil,
				Jobs: int(t.jobs), Ready: t.ready.N,
				Using: int(t.using), Watching: int(t.watching), Waiting: int(t.waiters.n),
			}) {
				return
			}
		}
	}
}

// Clients walks all clients.
func (c *Core) Clients() iter.Seq[ClientView] {
	return func(yield func(ClientView) bool) {
		for _, cl := range c.clients {
			if cl == nil {
				continue
			}
			v := ClientView{ID: cl.id, Held: int(cl.held.N), Waiting: cl.waiting}
			for _, i := range cl.watches.list {
				v.Watches = append(v.Watches, c.tubes[c.watches.At(i).tube].name)
			}
			if !yield(v) {
				return
			}
		}
	}
}

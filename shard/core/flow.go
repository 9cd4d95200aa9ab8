package core

import (
	"polystalk/shard/flow"
	"polystalk/shard/store"
)

// coreSums are what passes through all tubes of a core, and what they have. It is written
// at nearly every operation, hence whole cache lines that are no other core's.
type coreSums struct {
	flow.Totals

	_ [56]byte // to whole cache lines
}

// flowOf is the flow of t, which begins when something happens in it that is counted there:
// tubes in which jobs only lie pay nothing for it.
func (t *tube) flowOf() *flow.Flow {
	if t.flow == nil {
		t.flow = new(flow.Flow)
	}
	return t.flow
}

// count counts an event in t.
func (c *Core) count(t *tube, e flow.Event) {
	t.flowOf().Count(e)
	c.sums.Count(e)
}

// waited counts how long j, which is ready and about to be reserved, has been ready.
func (c *Core) waited(t *tube, j *store.Job) {
	l := flow.LengthOf(int64(c.now - j.Since))
	t.flowOf().Waited(l)
	c.sums.Waited(l)
}

// ran counts how long j was reserved, which it is no longer.
func (c *Core) ran(t *tube, j *store.Job) {
	l := flow.LengthOf(int64(c.now - j.Since))
	t.flowOf().Ran(l)
	c.sums.Ran(l)
}

// dueOf is when j, which is delayed or reserved, is due: the latter in time awake.
func (c *Core) dueOf(j *store.Job) Time {
	if j.State == Reserved {
		return Time(c.clients[j.Client].due.At(int(j.Pos)).A)
	}
	return Time(c.tubes[j.Tube].delay.At(int(j.Pos)).A)
}

// A Flow is what has passed through a tube since it was made, or through a whole core since
// the process began.
type Flow struct {
	Puts, Deletes uint64
	Events        [flow.Events]uint64
	Wait, Run     flow.Times

	// Of a tube only:

	Bytes   uint64 // of the bodies that are there
	Oldest  Time   // how long the job has been ready that has been so for longest
	Waiting bool   // there is such a job
}

// Add adds g, which is another tube's or another core's.
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

// read copies what f has counted.
func (g *Flow) read(f interface {
	Of(flow.Event) uint64
	Wait() flow.Times
	Run() flow.Times
}) {
	for e := range g.Events {
		g.Events[e] = f.Of(flow.Event(e))
	}
	g.Wait, g.Run = f.Wait(), f.Run()
}

// oldest is how long the job has been ready that has been so for longest.
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
		g.Puts, g.Deletes = c.counts.Total, c.counts.Total+c.restored-uint64(c.jobs.Len())
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
	if t.flow != nil {
		g.read(t.flow)
	}
}

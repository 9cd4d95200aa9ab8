package core

import (
	"maps"

	"polystalk/shard/stats"
)

// A flush ends all jobs of a tube in some states at one moment, however many there are: it
// takes their heap and list off the tube, and from then on no operation sees them. Their memory
// is freed later, in parts; see collect.
//
// A tube stores for each state the moment of its last flush. A job is flushed if it entered
// its state by that moment. A flush advances the time, so a job that enters later has a later
// moment. Hence no job is marked, and one flush may follow another before the first is
// collected. Without a flush the cost is one check of the tube for each lookup of a job by id.

// Flush ends all jobs of a tube in some states, but not Reserved, at one moment. From then on no
// operation finds them, and they are counted as flushed. Their memory is collected later, in parts.
// Only the collection tells followers that the jobs failed, subtracts their bytes from the tube's,
// records their ends, and allows the tube to be forgotten. Jobs that enter meanwhile are not
// affected. StatusChanged: x.Filter.EnteredBy is set, a job entered such a state after it, and
// nothing was changed; the caller then uses FlushStep. Reply: N, the number of jobs; x.Flushed.
func (o *Op) Flush(name []byte, states States, x *OperatorOp) {
	o.onOperator(opFlush, name, x)
	o.N, o.Wait = uint32(states), false
}

// CountFlush only counts what Flush would end. It does not read x.Filter. The counted jobs are
// those that have entered their states by x.Flushed.At.
func (o *Op) CountFlush(name []byte, states States, x *OperatorOp) {
	o.Flush(name, states, x)
	o.Wait = true
}

// AskFlushed asks whether the jobs of the Flush with that ticket are collected. StatusMore: not
// all. Reply: Commit, with the records of their end.
func (o *Op) AskFlushed(ticket uint64) {
	o.set(opAskFlushed, 0, nil, nil, nil)
	o.Seq = ticket
}

// FlushStep deletes the jobs of a tube in a state, but not Reserved, that entered it by
// x.Filter.EnteredBy: the oldest first, a bounded number a visit. It reads nothing else of
// x.Filter. StatusMore asks for the same again. Reply: N, the number of jobs of this visit.
func (o *Op) FlushStep(name []byte, s State, x *OperatorOp) {
	o.onOperator(opFlushStep, name, x)
	o.N = uint32(s)
}

// Flushed counts the jobs that a Flush has ended, by their state.
type Flushed struct {
	Ready, Delayed, Buried uint64
	Ticket                 uint64 // for AskFlushed
	At                     Time   // in core time
}

// All returns the number of all jobs.
func (x *Flushed) All() uint64 { return x.Ready + x.Delayed + x.Buried }

// In returns the count of a state.
func (x *Flushed) In(s State) *uint64 {
	switch s {
	case Ready:
		return &x.Ready
	case Delayed:
		return &x.Delayed
	}
	return &x.Buried
}

// flushed is a tube's record of its flushed jobs.
type flushed struct {
	until [Buried + 1]Time // by state: jobs that entered it by this moment are flushed
	lists int              // lists of its jobs that are not collected yet

	// spared are jobs that were taken for a move at the moment of the flush, and were put back
	// later with their old Since; see putBack. The value is their state: an entry for another
	// state means nothing.
	spared map[JobID]State
}

// noTime is before every moment.
const noTime Time = -1 << 63

// has reports whether j, a job of the tube, is flushed.
func (x *flushed) has(j *Job) bool {
	return j.Since <= x.until[j.State] && x.spared[j.ID] != j.State
}

// spare keeps j alive in its state although its Since is before the flush.
func (x *flushed) spare(j *Job) {
	if x.spared == nil {
		x.spared = make(map[JobID]State)
	}
	x.spared[j.ID] = j.State
}

// isFlushed reports whether j is flushed and not yet collected.
func (c *Core) isFlushed(j *Job) bool {
	t := c.tubes[j.Tube]
	return t != nil && t.flushed != nil && t.flushed.has(j)
}

// A flushedList is the former list of a tube's jobs in a state.
type flushedList struct {
	tube *tube
	jobs List
}

// collection has the flushed jobs, and the progress of their collection. The first flush makes it.
type collection struct {
	lists []flushedList // the first is the next to be collected
	jobs  int           // in all of them
	timer timer         // has neither tube nor client; fires for the next part

	begun, ended uint64 // number of lists since the process started
	commit       uint64 // of the record of the last collected job
	most         int    // jobs in a part
}

// A part of the collection takes about 40 µs, mostly to read records, so it delays no client
// noticeably. The pause before the next part leaves most of the shard's time to clients. In an
// idle shard the timer's goroutine sleeps longer, for a millisecond; then a part is twice as
// large. So the collection of a million jobs takes between 0.25 and 0.5 seconds.
const (
	collectMax   = 1024
	collectEvery = 250_000 // nanoseconds
)

// ensureCollection returns the collection, and makes it before the first flush.
func (c *Core) ensureCollection() *collection {
	if c.collection == nil {
		c.collection = &collection{most: collectMax}
	}
	return c.collection
}

// applyFlush runs a Flush or a CountFlush.
func (c *Core) applyFlush(op *Op, r *Reply) {
	x, states := op.Operator, States(op.N)
	t := c.findTube(op.Name)
	x.Flushed = Flushed{}
	if t == nil {
		r.Status = StatusNotFound
		return
	}
	if by := x.Filter.EnteredBy; by != 0 && !op.Wait {
		for _, s := range flushable {
			if last := t.listOf(s).Tail; states.Has(s) && last != 0 && c.jobs.At(last).Since > by {
				r.Status = StatusChanged
				return
			}
		}
	}
	for _, s := range flushable {
		if n := t.listOf(s).N; states.Has(s) && n > 0 {
			*x.Flushed.In(s) = uint64(n)
			r.N += n
			if !op.Wait {
				c.flush(t, s)
			}
		}
	}
	x.Flushed.At = c.now
	c.now++ // so that no later job enters a state at this moment
	x.Flushed.Ticket = c.ensureCollection().begun
	if r.N > 0 && !op.Wait {
		c.refresh(t)
		c.publish(t)
	}
}

// flushable are the states with jobs that can be flushed: all but Reserved.
var flushable = [...]State{Ready, Delayed, Buried}

// flush flushes the jobs of t in a state. There must be at least one.
func (c *Core) flush(t *tube, s State) {
	until, l := c.now, t.listOf(s)
	n := int(l.N)
	switch s {
	case Ready:
		c.counts.Ready -= uint64(n)
		c.counts.Urgent -= uint64(t.urgent)
		t.ready, t.urgent, t.low = Heap{}, 0, 0
	case Delayed:
		c.counts.Delayed -= uint64(n)
		t.delay, t.urgentDelayed, t.lowDelayed = Heap{}, 0, 0
	case Buried:
		c.counts.Buried -= uint64(n)
		until = c.buriedAt
	}
	c.weigh(t, -n, 0)
	t.deletes += uint64(n)
	t.flowOf().CountN(stats.Flush, n)
	c.sums.CountN(stats.Flush, n)
	if t.flushed == nil {
		t.flushed = new(flushed)
		for s := range t.flushed.until {
			t.flushed.until[s] = noTime
		}
	}
	t.flushed.until[s] = until
	maps.DeleteFunc(t.flushed.spared, func(_ JobID, in State) bool { return in == s })
	t.flushed.lists++
	q := c.ensureCollection()
	q.lists = append(q.lists, flushedList{t, *l})
	q.jobs += n
	q.begun++
	*l = List{}
	if q.timer.pos == 0 {
		c.timers.want(&q.timer, c.now)
	}
}

// collect frees the next part of the flushed jobs, which was due at a moment.
func (c *Core) collect(due Time) {
	q := c.collection
	most := q.most
	if c.now-due >= collectEvery {
		most *= 2
	}
	for left := most; left > 0 && len(q.lists) > 0; left-- {
		l := &q.lists[0]
		c.collectJob(l.tube, l)
		if l.jobs.N > 0 {
			continue
		}
		t := l.tube
		q.lists[0] = flushedList{}
		if q.lists = q.lists[1:]; len(q.lists) == 0 {
			q.lists = nil
		}
		q.ended++
		if t.flushed.lists--; t.flushed.lists == 0 {
			t.flushed = nil
			c.closeTube(t) // if only its flushed jobs kept it
		}
	}
	at := Never
	if len(q.lists) > 0 {
		at = c.now + collectEvery
	}
	c.timers.move(&q.timer, at)
}

// collectJob frees the first job of a list. Its followers are told that it failed, as for a job
// that an operator deletes.
func (c *Core) collectJob(t *tube, l *flushedList) {
	i := l.jobs.Head
	j := c.jobs.At(i)
	l.jobs.Remove(c.jobs, i, j)
	c.collection.jobs--
	if j.isSubmitted() {
		c.relay(j, c.submissionOf(j), RelayFailed, nil, nil)
	}
	if c.records(j) {
		c.recordDelete(t, j)
		c.collection.commit = c.buf.Commit
	}
	c.weigh(t, 0, -int64(j.Size))
	id := j.ID
	j.State, j.Client = Nowhere, 0
	c.freeJob(i, j)
	c.finished(id)
}

// flushStep runs a FlushStep, from the head of the list on.
func (c *Core) flushStep(t *tube, s State, x *OperatorOp, r *Reply) {
	for l := t.listOf(s); l.Head != 0; r.N++ {
		i := l.Head
		j := c.jobs.At(i)
		if by := x.Filter.EnteredBy; by != 0 && j.Since > by {
			return
		}
		if r.N == actMax {
			r.Status = StatusMore
			return
		}
		c.endJob(t, i, j) // with the last one the tube may be gone
	}
}

// askFlushed runs an AskFlushed.
func (c *Core) askFlushed(op *Op, r *Reply) {
	q := c.ensureCollection()
	if q.ended < op.Seq {
		r.Status = StatusMore
		return
	}
	r.Commit = q.commit
}

// jobCount returns the number of jobs without the flushed ones.
func (c *Core) jobCount() int {
	if c.collection == nil {
		return c.jobs.Len()
	}
	return c.jobs.Len() - c.collection.jobs
}

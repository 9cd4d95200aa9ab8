package core

import (
	"fmt"
	"maps"

	"polystalk/shard/stats"
)

// A flush ends all jobs of a tube that are in a state at one moment, however many there are:
// their heap and their list are taken off the tube, and an empty tube is what everybody sees
// from then on. What they have taken is given back later, in parts (reclaim).
//
// A job is flushed if it entered its state by the moment until which the tube's jobs in that
// state are flushed. Time advances with a flush, so a job that enters later has a later
// moment. Hence no job is marked, neither when it comes and goes nor by a flush, and one flush
// may follow another before the first is collected. Without a flush the cost is one look at
// the tube for each job that is looked up by its id.

// Condemn flushes a tube: it ends all jobs in some states, but not Reserved, at one moment,
// however many there are. From then on no operation finds them, and they are counted as
// flushed. Their memory is given back later, in parts. Only then do waiting clients hear that
// the jobs failed, are their bytes subtracted from the tube's, are their ends recorded, and may
// the tube be forgotten. Jobs that enter meanwhile are not touched. If x.Filter.EnteredBy is
// set and a job has entered such a state after it, the answer is StatusChanged and nothing was
// changed: the caller then uses Sweep. Reply: N, the number of jobs; x.Condemned.
func (o *Op) Condemn(name []byte, states States, x *OperatorOp) {
	o.onOperator(opCondemn, name, x)
	o.N, o.Wait = uint32(states), false
}

// CountCondemned only counts what Condemn would end. x.Filter is not read. Those that were
// counted are the ones that are there and have entered their states by x.Condemned.At.
func (o *Op) CountCondemned(name []byte, states States, x *OperatorOp) {
	o.Condemn(name, states, x)
	o.Wait = true
}

// AskReclaimed asks for the jobs that a Condemn with that ticket has ended. StatusMore: some
// are still to be reclaimed. Reply: Commit, on which their end depends.
func (o *Op) AskReclaimed(ticket uint64) {
	o.set(opReclaimed, 0, nil, nil, nil)
	o.Seq = ticket
}

// Condemned is what a Condemn has ended: jobs, by the state that they were in, and what to ask
// for when they are reclaimed.
type Condemned struct {
	Ready, Delayed, Buried uint32
	Ticket                 uint64
	At                     Time // in core time
}

// of is the number of those that were in a state.
func (x *Condemned) of(s State) *uint32 {
	switch s {
	case Ready:
		return &x.Ready
	case Delayed:
		return &x.Delayed
	}
	return &x.Buried
}

// condemned is the part of a tube that is over.
type condemned struct {
	until [Buried + 1]Time // by state: when the last of them entered it
	lists int              // of its jobs, still to be reclaimed

	// spared are those that were taken to be moved then, and are back in the state that they
	// had, as if they had not left it; see putBack. An entry for another state says nothing.
	spared map[JobID]State
}

// noTime is before every moment.
const noTime Time = -1 << 63

// has reports whether j, which is a job of the tube, is over.
func (x *condemned) has(j *Job) bool {
	return j.Since <= x.until[j.State] && x.spared[j.ID] != j.State
}

// spare has j live in a state that it is said to have entered before a flush.
func (x *condemned) spare(j *Job) {
	if x.spared == nil {
		x.spared = make(map[JobID]State)
	}
	x.spared[j.ID] = j.State
}

// isCondemned reports whether j is over, and only not yet reclaimed.
func (c *Core) isCondemned(j *Job) bool {
	t := c.tubes[j.Tube]
	return t != nil && t.condemned != nil && t.condemned.has(j)
}

// A condemnedList is what was the list of a tube's jobs in a state.
type condemnedList struct {
	tube *tube
	jobs List
}

// reclaims are the jobs that are condemned, and what became of those that were. It is made
// by the first flush.
type reclaims struct {
	lists []condemnedList // the first is the next to be reclaimed
	jobs  int             // in all of them
	timer timer           // has neither tube nor client; fires for the next part

	begun, ended uint64 // lists, since the process began
	commit       uint64 // on which the end of the last of them depends
	most         int    // jobs in a part
}

// A part of the collection takes about 40 µs, mostly for looking at records, so no client
// waits for it noticeably. The pause before the next part leaves most of the shard to clients.
// In a shard without visits a goroutine sleeps longer, a millisecond; then a part may be twice
// as large. So a million jobs take between a quarter and half of a second.
const (
	reclaimMax   = 1024
	reclaimEvery = 250_000 // nanoseconds
)

// reclaimed is what there is to be reclaimed.
func (c *Core) reclaimed() *reclaims {
	if c.reclaims == nil {
		c.reclaims = &reclaims{most: reclaimMax}
	}
	return c.reclaims
}

// applyCondemn takes the jobs of a tube that are in some states.
func (c *Core) applyCondemn(op *Op, r *Reply) {
	x, states := op.Operator, States(op.N)
	t := c.findTube(op.Name)
	x.Condemned = Condemned{}
	if t == nil {
		r.Status = StatusNotFound
		return
	}
	if by := x.Filter.EnteredBy; by != 0 && !op.Wait {
		for _, s := range condemnable {
			if last := t.listOf(s).Tail; states.Has(s) && last != 0 && c.jobs.At(last).Since > by {
				r.Status = StatusChanged
				return
			}
		}
	}
	for _, s := range condemnable {
		if n := t.listOf(s).N; states.Has(s) && n > 0 {
			*x.Condemned.of(s) = n
			r.N += n
			if !op.Wait {
				c.condemn(t, s)
			}
		}
	}
	x.Condemned.At = c.now
	c.now++ // so that nothing else enters a state at this moment
	x.Condemned.Ticket = c.reclaimed().begun
	if r.N > 0 && !op.Wait {
		c.refresh(t)
		c.publish(t)
	}
}

// condemnable are the states with jobs that can be flushed: all but Reserved.
var condemnable = [...]State{Ready, Delayed, Buried}

// condemn flushes the jobs of t in a state. There must be some.
func (c *Core) condemn(t *tube, s State) {
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
	t.jobs -= n
	t.deletes += uint64(n)
	t.flowOf().CountN(stats.Flush, n)
	c.sums.CountN(stats.Flush, n)
	if t.condemned == nil {
		t.condemned = new(condemned)
		for s := range t.condemned.until {
			t.condemned.until[s] = noTime
		}
	}
	t.condemned.until[s] = until
	maps.DeleteFunc(t.condemned.spared, func(_ JobID, in State) bool { return in == s })
	t.condemned.lists++
	q := c.reclaimed()
	q.lists = append(q.lists, condemnedList{t, *l})
	q.jobs += n
	q.begun++
	*l = List{}
	if q.timer.pos == 0 {
		c.timers.want(&q.timer, c.now)
	}
}

// reclaim gives back what the next condemned jobs have taken: a part that was due at a moment.
func (c *Core) reclaim(due Time) {
	q := c.reclaims
	most := q.most
	if c.now-due >= reclaimEvery {
		most *= 2
	}
	for left := most; left > 0 && len(q.lists) > 0; left-- {
		l := &q.lists[0]
		c.reclaimJob(l.tube, l)
		if l.jobs.N > 0 {
			continue
		}
		t := l.tube
		q.lists[0] = condemnedList{}
		if q.lists = q.lists[1:]; len(q.lists) == 0 {
			q.lists = nil
		}
		q.ended++
		if t.condemned.lists--; t.condemned.lists == 0 {
			t.condemned = nil
			c.closeTube(t) // if only they kept it
		}
	}
	at := Never
	if len(q.lists) > 0 {
		at = c.now + reclaimEvery
	}
	c.timers.move(&q.timer, at)
}

// reclaimJob gives back what the first job of a list has taken. Its followers hear that it
// has failed, as of one that an operator has deleted.
func (c *Core) reclaimJob(t *tube, l *condemnedList) {
	i := l.jobs.Head
	j := c.jobs.At(i)
	l.jobs.Remove(c.jobs, i, j)
	c.reclaims.jobs--
	if j.isSubmitted() {
		c.relay(j, c.submissionOf(j), RelayFailed, nil, nil)
	}
	if c.records(j) {
		c.recordDelete(t, j)
		c.reclaims.commit = c.buf.Commit
	}
	t.bytes -= uint64(j.Size)
	id := j.ID
	j.State, j.Client = Nowhere, 0
	c.freeJob(i, j)
	c.finished(id)
}

// applyReclaimed tells whether what was condemned until a ticket is reclaimed.
func (c *Core) applyReclaimed(op *Op, r *Reply) {
	q := c.reclaimed()
	if q.ended < op.Seq {
		r.Status = StatusMore
		return
	}
	r.Commit = q.commit
}

// condemned checks the jobs that are over, and not yet reclaimed.
func (k *checker) condemned() {
	c, q := k.c, k.c.reclaims
	if q == nil {
		return
	}
	jobs, counted := 0, make(map[*tube]int)
	for i := range q.lists {
		l := &q.lists[i]
		counted[l.tube]++
		where := fmt.Sprintf("tube %q condemned, list %d", l.tube.name, i)
		if l.jobs.N == 0 || c.tubes[l.tube.id] != l.tube || l.tube.condemned == nil {
			k.fail("%s: it is empty, or its tube is gone or knows nothing of it", where)
			continue
		}
		state := c.jobs.At(l.jobs.Head).State
		k.list(where, &l.jobs, func(i uint32) {
			j := k.place(i, state, where)
			if j != nil && (j.Tube != l.tube.id || state == Reserved || !c.isCondemned(j)) {
				k.fail("%s: job %d is not condemned, or of another tube", where, j.ID)
			}
			jobs++
		})
	}
	if jobs != q.jobs || q.begun-q.ended != uint64(len(q.lists)) || (q.timer.pos > 0) != (jobs > 0) {
		k.fail("condemned: %d jobs, counted %d; %d lists of %d to %d; the next part is at %d", jobs, q.jobs, len(q.lists), q.ended, q.begun, q.timer.at)
	}
	for _, t := range c.tubes {
		if t != nil && (t.condemned != nil) != (counted[t] > 0) || t != nil && t.condemned != nil && t.condemned.lists != counted[t] {
			k.fail("tube %q: %d lists are condemned, and it knows of others", t.name, counted[t])
		}
	}
}

// jobCount is how many jobs there are, without those that are over.
func (c *Core) jobCount() int {
	if c.reclaims == nil {
		return c.jobs.Len()
	}
	return c.jobs.Len() - c.reclaims.jobs
}

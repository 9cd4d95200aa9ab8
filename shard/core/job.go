package core

import (
	"bytes"
	"fmt"
)

// countIn adds the new job j to t and its counters.
func (c *Core) countIn(t *tube, j *Job) {
	j.Tube = t.id
	c.weigh(t, 1, int64(j.Size))
}

// countOut subtracts j, which is about to end, from the counters of t.
func (c *Core) countOut(t *tube, j *Job) {
	c.weigh(t, -1, -int64(j.Size))
}

// newJob makes a record and stores the body. Without memory for both it returns 0 and changes
// nothing.
func (c *Core) newJob(op *Op) (uint32, *Job) {
	i, j := c.jobs.Alloc()
	if i == 0 {
		return 0, nil
	}
	if op.Large != nil {
		j.Size = uint32(op.Large.Len())
		j.Flags |= flagLarge
		j.Body = c.large.Put(op.Large)
	} else {
		j.Size = uint32(len(op.Body))
		ref, ok := c.bodies.Put(op.Body)
		if !ok {
			c.jobs.Free(i)
			return 0, nil
		}
		j.Body = ref
	}
	j.ID = op.ID
	c.lastID = max(c.lastID, op.ID)
	c.ids.insert(c.jobs, i, j)
	return i, j
}

// freeJob forgets a job that is in no container any more.
func (c *Core) freeJob(i uint32, j *Job) {
	j.mustBe(Nowhere)
	if j.isSubmitted() {
		c.freeSubmission(j)
	}
	if !c.ids.Remove(c.jobs, i, j) {
		panic(fmt.Sprintf("core: job %d, record %d, is not in the table of ids", j.ID, i))
	}
	c.freeBody(j)
	c.jobs.Free(i)
}

// freeBody forgets a job's body. Replies that share a large body keep it.
func (c *Core) freeBody(j *Job) {
	if j.Flags&flagLarge == 0 {
		c.bodies.Free(j.Body, int(j.Size))
		return
	}
	body := c.large.Remove(j.Body)
	if h, ok := c.dir.(bodyHearer); ok {
		h.BodyFreed(body)
	}
}

// sameBody reports whether j has op's body.
func (c *Core) sameBody(j *Job, op *Op) bool {
	if op.Large == nil {
		return j.Flags&flagLarge == 0 && bytes.Equal(c.bodies.Get(j.Body, int(j.Size)), op.Body)
	}
	return j.Flags&flagLarge != 0 && c.large.At(j.Body).equal(op.Large)
}

// bodyOf is j's body, in one piece.
func (c *Core) bodyOf(j *Job) []byte {
	if j.Flags&flagLarge != 0 {
		if l := c.large.At(j.Body); len(l) == 1 {
			return l[0]
		}
		return c.large.At(j.Body).Append(nil)
	}
	return c.bodies.Get(j.Body, int(j.Size))
}

// replyJob fills r with a job; see Reply for how long its body is good.
func (c *Core) replyJob(r *Reply, s Status, j *Job) {
	r.Status = s
	r.ID = j.ID
	r.Commit = max(r.Commit, j.Commit())
	if c.policing != nil {
		if t := c.tubes[j.Tube]; t.recordsAttempts() {
			// A crash must not forget the attempts before this one.
			r.Commit = max(r.Commit, t.policy.changed)
		}
	}
	if j.Flags&flagLarge != 0 {
		r.Large = c.large.At(j.Body)
	} else {
		r.Body = c.bodies.Get(j.Body, int(j.Size))
	}
}

// countClass adds n to the ready jobs of a priority's class. enterReady and leaveReady do it in
// place: a call, even an inlined one, costs them several nanoseconds.
func (c *Core) countClass(t *tube, pri uint32, n int32) {
	switch {
	case pri < urgentBelow:
		t.urgent += uint32(n)
		c.counts.Urgent += uint64(int64(n))
	case pri >= lowFrom:
		t.low += uint32(n)
	}
}

// countDelayed adds n to the delayed jobs of a priority's class.
func (t *tube) countDelayed(pri uint32, n int32) {
	switch {
	case pri < urgentBelow:
		t.urgentDelayed += uint32(n)
	case pri >= lowFrom:
		t.lowDelayed += uint32(n)
	}
}

// The functions enter… and leave… move a job into a container and out of it, and update all
// counters; other code must not change a job's state. Between a leave and the next enter the
// job's state is Nowhere. A function panics if the job is not in the expected state.

// enterReady makes a job ready, ordered by its priority and id.
func (c *Core) enterReady(t *tube, i uint32, j *Job) {
	c.enterReadyAt(t, i, j, c.now, j.ID, 0)
}

// enterReadyAt makes a job ready behind the job with id behind, and behind the jobs that were
// put there with a lower turn; see entry. It counts as ready since the given moment, which is
// not before the moment of the last job in the list: the list is in order.
func (c *Core) enterReadyAt(t *tube, i uint32, j *Job, since Time, behind JobID, turn uint32) {
	j.mustBe(Nowhere)
	j.State = Ready
	j.Since = since
	j.Client = ClientID(turn)
	t.readyList.pushBack(c.jobs, i, j)
	t.ready.Push(c.jobs, entry{A: uint64(behind), B: j.Pri, Job: i})
	c.counts.Ready++
	switch {
	case j.Pri < urgentBelow:
		t.urgent++
		c.counts.Urgent++
	case j.Pri >= lowFrom:
		t.low++
	}
	c.refresh(t)
	if t.policy != nil {
		c.wantPolicy(t)
	}
}

// leaveReady takes a ready job out. The caller must publish the tube's mirror.
func (c *Core) leaveReady(t *tube, i uint32, j *Job) {
	j.mustBe(Ready)
	t.ready.Remove(c.jobs, int(j.Pos))
	t.readyList.Remove(c.jobs, i, j)
	j.State = Nowhere
	j.Client = 0
	c.counts.Ready--
	switch {
	case j.Pri < urgentBelow:
		t.urgent--
		c.counts.Urgent--
	case j.Pri >= lowFrom:
		t.low--
	}
	c.refresh(t)
}

// enterDelayed delays a job until a moment.
func (c *Core) enterDelayed(t *tube, i uint32, j *Job, until Time) {
	j.mustBe(Nowhere)
	j.State = Delayed
	j.Since = c.now
	t.delayList.pushBack(c.jobs, i, j)
	t.delay.Push(c.jobs, entry{A: uint64(until), Job: i})
	c.counts.Delayed++
	switch {
	case j.Pri < urgentBelow:
		t.urgentDelayed++
	case j.Pri >= lowFrom:
		t.lowDelayed++
	}
	c.timers.want(&t.timer, until)
}

// leaveDelayed takes a delayed job out. The tube's timer is not changed: if it fires too early,
// it finds nothing to do and moves to the next moment.
func (c *Core) leaveDelayed(t *tube, i uint32, j *Job) {
	j.mustBe(Delayed)
	t.delay.Remove(c.jobs, int(j.Pos))
	t.delayList.Remove(c.jobs, i, j)
	j.State = Nowhere
	c.counts.Delayed--
	switch {
	case j.Pri < urgentBelow:
		t.urgentDelayed--
	case j.Pri >= lowFrom:
		t.lowDelayed--
	}
}

// enterReserved gives a job to cl.
func (c *Core) enterReserved(t *tube, i uint32, j *Job, cl *client) {
	j.mustBe(Nowhere)
	j.State = Reserved
	j.Client = cl.id
	j.Since = c.now
	j.Reserves++
	cl.held.pushBack(c.jobs, i, j)
	cl.due.Push(c.jobs, entry{A: uint64(c.deadlineOf(j, t, cl)), Job: i})
	t.reserved++
	c.counts.Reserved++
	c.timers.want(&cl.timer, c.dueAt(&cl.timer))
	if t.policy != nil {
		c.tookByPolicy(t)
	}
}

// leaveReserved takes a job from the client that has reserved it.
func (c *Core) leaveReserved(t *tube, i uint32, j *Job) {
	j.mustBe(Reserved)
	cl := c.clientAt(j.Client)
	cl.held.Remove(c.jobs, i, j)
	cl.due.Remove(c.jobs, int(j.Pos))
	j.State = Nowhere
	j.Client = 0
	t.reserved--
	c.counts.Reserved--
	if t.policy != nil {
		c.freeByPolicy(t)
	}
	t.flowOf().Ran(&c.sums.Totals, c.since(j))
}

// enterBuried buries a job, behind those that are buried already.
func (c *Core) enterBuried(t *tube, i uint32, j *Job) {
	j.mustBe(Nowhere)
	j.State = Buried
	// No two jobs have the same moment, since a replay sorts by it.
	c.buriedAt = max(c.now, c.buriedAt+1)
	j.Since = c.buriedAt
	j.Buries++
	t.buried.pushBack(c.jobs, i, j)
	c.counts.Buried++
	if t.policy != nil {
		c.wantPolicy(t)
	}
}

// leaveBuried takes a buried job out.
func (c *Core) leaveBuried(t *tube, i uint32, j *Job) {
	j.mustBe(Buried)
	t.buried.Remove(c.jobs, i, j)
	j.State = Nowhere
	c.counts.Buried--
}

// leave takes a job out of its container.
func (c *Core) leave(t *tube, i uint32, j *Job) {
	switch j.State {
	case Ready:
		c.leaveReady(t, i, j)
		c.publish(t)
	case Delayed:
		c.leaveDelayed(t, i, j)
	case Reserved:
		c.leaveReserved(t, i, j)
	case Buried:
		c.leaveBuried(t, i, j)
	default:
		j.isElsewhere(Ready)
	}
}

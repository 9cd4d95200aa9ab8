package core

import (
	"bytes"

	"polystalk/shard/stats"
)

// The life of submitted jobs. Sources: gearmand's PROTOCOL, and the observed behavior of
// gearmand 1.1.20 and 2.0.0, except where they lose work.

// functionClient is clientFor a client that uses functions.
func (c *Core) functionClient(op *Op) *client {
	cl := c.clientFor(op)
	cl.mail = op.Function.Mail
	return cl
}

// submit adds a job, or joins one. A foreground job has a follower from the beginning.
func (c *Core) submit(op *Op, r *Reply) {
	x := op.Function
	t := c.openFunction(op.Name)
	if sum, ok := c.submissions.sumOf(op); ok {
		if i := c.findUnique(t, op, hashIn(t, sum)); i != 0 {
			c.join(t, i, op, r)
			return
		}
	}
	total := uint64(t.reserved) + uint64(t.ready.N+t.delay.N)
	if most := t.function.limits[ClassOf(op.Pri)]; most > 0 && total >= uint64(most) || t.policy != nil && !c.admits(t, op.size()) {
		r.Status = StatusFull
		c.closeTube(t)
		return
	}
	// From here on the id is used up, even if the submission fails.
	op.ID = x.Numbers.NextID()
	i, j := c.newJob(op)
	if i != 0 && !c.newSubmission(t, i, j, op) {
		c.freeJob(i, j)
		i = 0
	}
	if i == 0 {
		c.finished(op.ID)
		r.Status = StatusOutOfMemory
		c.closeTube(t)
		return
	}
	r.ID = j.ID
	j.Created = c.now
	j.Pri = op.Pri
	c.countIn(t, j)
	t.total++
	c.counts.Total++
	if !x.Background {
		// The follower is added before a worker can get the job. Only the id of the job is
		// recorded.
		cl := c.functionClient(op)
		c.follow(cl, i, c.submissionOf(j))
		c.recordNumber(t, j)
		r.Commit = max(r.Commit, j.Commit())
		r.Client = cl.id
	}
	if x.Due > c.now {
		j.Delay = uint32(min((x.Due-c.now+Second-1)/Second, 1<<32-1))
		c.enterDelayed(t, i, j, x.Due)
		c.recordNew(t, j)
		return
	}
	c.enterReady(t, i, j)
	c.recordNew(t, j)
	c.match(t)
}

// join adds a submission to an existing job, which keeps its priority, body and time to run.
func (c *Core) join(t *tube, i uint32, op *Op, r *Reply) {
	j := c.jobs.At(i)
	x := c.submissionOf(j)
	if op.Function.Background && c.unadmitted(j, op, r) {
		return
	}
	r.ID = j.ID
	if !op.Function.Background {
		cl := c.functionClient(op)
		c.follow(cl, i, x)
		r.Client = cl.id
	} else if !x.is(Background) {
		x.Flags |= Background
		c.recordNew(t, j)
	}
	r.Commit = max(r.Commit, j.Commit())
}

// unadmitted reports whether op must wait until the journal has made room for the body of j.
// op records the submitted job j in full for the first time. The body of op itself has room
// already, and a small body needs no more room than every command has.
func (c *Core) unadmitted(j *Job, op *Op, r *Reply) bool {
	if c.buf == nil || op.Admitted >= j.Size || j.Flags&flagLarge == 0 || c.submissionOf(j).is(Background) {
		return false
	}
	r.Status, r.N = StatusUnadmitted, j.Size
	return true
}

// report relays a worker's report about its job to the followers, and ends the job if the report
// says so. A failure is no more than a failed attempt while the tube's policy grants the job others.
// A job that was put has no followers: its failure buries it, so that it is not lost.
func (c *Core) report(op *Op, r *Reply) {
	i, j, t := c.findHeld(op)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	k := op.Function.Relay
	fails := k.Ends() && k != RelayDone
	retries := fails && c.retriesFailure(t, j)
	again := retries && uint64(j.Reserves)%t.policy.Attempts != 0
	if j.isSubmitted() {
		x, n := c.submissionOf(j), j.submission()
		switch {
		case k == RelayStatus:
			c.submissions.setProgress(n, progress{c.submissions.progressOf(n).lost, op.Function.Numerator, op.Function.Denominator})
		case again:
			c.submissions.setProgress(n, progress{lost: c.submissions.progressOf(n).lost})
		}
		if !again {
			r.N = c.relay(j, x, k, op.Body, op.Large)
		}
		if fails && !again {
			c.conclude(j) // so that giveUp does not report the failure a second time
		}
	}
	if !k.Ends() {
		return
	}
	c.leaveReserved(t, i, j)
	switch {
	case !fails:
		c.dropJob(t, i, j)
	case !retries:
		c.giveUp(t, i, j, BuriedByWorker, c.submissions.opts.BuryFailed)
	case !c.fail(t, i, j, false):
		c.requeue(t, i, j, j.isSubmitted())
	}
}

// loseWorker counts that a job has lost its worker, which has left or has exceeded its timeout. It
// reports whether the job has failed by that: it has lost its worker SubmitOptions.Retries times,
// and the policy of its tube has no Attempts.
func (c *Core) loseWorker(t *tube, i uint32, j *Job) bool {
	g := c.submissions
	lost := g.progressOf(j.submission()).lost + 1
	g.setProgress(j.submission(), progress{lost: lost})
	if g.opts.Retries == 0 || lost < g.opts.Retries || t.policy != nil && t.policy.Attempts > 0 {
		return false
	}
	c.giveUp(t, i, j, BuriedByAttempts, g.opts.BuryFailed)
	return true
}

// requeue makes a job that is in no container ready again after a failed attempt. A job of a
// Gearman worker goes to the tail of its priority, so that a job that kills its workers does not
// block others.
func (c *Core) requeue(t *tube, i uint32, j *Job, tail bool) {
	if g := c.submissions; tail {
		if g.tail != c.lastID {
			g.tail, g.turn = c.lastID, 0
		}
		g.turn++
		c.enterReadyAt(t, i, j, c.now, g.tail, g.turn)
	} else {
		c.enterReady(t, i, j)
	}
	if t.recordsAttempts() || tail && c.submissions.opts.Retries > 0 {
		c.recordIfRoom(t, j)
	}
	c.match(t)
}

// giveUp ends a job that has failed and is in no container. It buries the job, but deletes a
// submitted one that only its followers want, or that keeps says not to keep.
func (c *Core) giveUp(t *tube, i uint32, j *Job, why BuriedBy, keeps bool) {
	if j.isSubmitted() {
		x := c.submissionOf(j)
		c.relay(j, x, RelayFailed, nil, nil)
		if !keeps || !x.is(Background) {
			c.dropJob(t, i, j)
			return
		}
		c.submissions.setProgress(j.submission(), progress{})
	}
	j.setBuriedBy(why)
	c.enterBuried(t, i, j)
	c.count(t, stats.Bury)
	if j.isSubmitted() {
		c.conclude(j)
	}
	c.recordIfRoom(t, j)
}

// unwanted reports whether a submitted job need not run: it was cancelled, or it has no
// followers and is no background job.
func (c *Core) unwanted(j *Job) bool {
	x := c.submissionOf(j)
	return x.is(cancelled) || !x.is(Background) && x.Followers == 0
}

// submissionDeleted tells the followers of a job that a worker has deleted it: a client that
// deletes its reserved job has completed it.
func (c *Core) submissionDeleted(j *Job) {
	k := RelayFailed
	if j.State == Reserved {
		k = RelayDone
	}
	c.relay(j, c.submissionOf(j), k, nil, nil)
}

// conclude detaches a job's followers before its record is deleted. From then on a submission with
// the same unique id starts a new job.
func (c *Core) conclude(j *Job) {
	x := c.submissionOf(j)
	c.unfollowAll(x)
	c.submissions.unindex(j.submission(), x)
}

// cancel ends a job. A job that runs goes on, but its worker's reports go to no client.
func (c *Core) cancel(op *Op, r *Reply) {
	i, j, t := c.find(op.ID)
	switch {
	case i == 0, isTaken(j), !c.sees(op, i, j), j.State == Reserved && (!j.isSubmitted() || c.submissionOf(j).is(cancelled)):
		r.Status = StatusNotFound
		return
	case j.isSubmitted():
		c.relay(j, c.submissionOf(j), RelayFailed, nil, nil)
		c.conclude(j)
	}
	if j.State == Reserved {
		c.cancelRunning(t, j)
		return
	}
	c.leave(t, i, j)
	c.dropJob(t, i, j)
}

// cancelRunning cancels a reserved submitted job; see cancel.
func (c *Core) cancelRunning(t *tube, j *Job) {
	c.recordDelete(t, j) // so that it does not come back after a restart
	x := c.submissionOf(j)
	x.Flags |= cancelled
	x.Flags &^= Background
}

// sees reports whether a job is not hidden from op; see FunctionOp.Visible.
func (c *Core) sees(op *Op, i uint32, j *Job) bool {
	f := op.Function
	if f.Visible == nil {
		return true
	}
	follows := op.Client != 0 && j.isSubmitted() && c.submissions.followerOf(c.clientAt(op.Client), i, c.submissionOf(j)) != nil
	return follows || f.Visible(c.tubes[j.Tube].name)
}

// visitMost is how many jobs or tubes a visit of a list looks at, if most are not hidden. To hide
// one takes up to a microsecond.
func (f *FunctionOp) visitMost(most int) int {
	if f.Visible != nil {
		return most / 8
	}
	return most
}

// status fills r and op.Function with the progress of j, which may be nil.
func (c *Core) status(j *Job, op *Op, r *Reply) {
	x := op.Function
	if j == nil {
		r.Status = StatusNotFound
		return
	}
	r.ID, r.Commit = j.ID, j.Commit()
	x.Running = j.State == Reserved
	x.Numerator, x.Denominator, x.Clients = 0, 0, 0
	if !j.isSubmitted() {
		return
	}
	e := c.submissions.progressOf(j.submission())
	x.Numerator, x.Denominator, x.Clients = e.numerator, e.denominator, c.submissions.followers[c.submissionOf(j).Followers].n
}

// uniqueStatus runs a UniqueStatus. A visit looks at a bounded number of jobs, and completes
// the group of functions that it has begun.
func (c *Core) uniqueStatus(op *Op, r *Reply) {
	c.ensureSubmissions()
	sum, ok := c.submissions.sumOf(op)
	var newest *Job
	groups, looked := uint64(min(uniqueGroups, len(c.tubes))), 0
	x := op.Function
	for ; ok && x.Cursor < groups && looked < boundedMax; x.Cursor++ {
		looked++
		c.submissions.unique.find(c.submissions.jobs, hashAmong(uint32(x.Cursor), sum), func(n uint32) bool {
			looked++
			g := c.submissions.jobs.At(n)
			if g.is(byBody) || !bytes.Equal(c.submissions.uniqueOf(g), x.Unique()) {
				return false
			}
			if j := c.jobs.At(g.Job); (newest == nil || j.ID > newest.ID) && !c.isFlushed(j) && c.sees(op, g.Job, j) {
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

// listMax is how many jobs a visit looks at, and then the rest of the last bucket.
const listMax = 512

// listJobs appends the jobs of the next buckets of the table of ids. A job may be listed
// twice if the table grows between two visits, and missed if it shrinks.
func (c *Core) listJobs(x *FunctionOp, r *Reply) {
	for looked, most := 0, x.visitMost(listMax); x.Cursor < uint64(c.ids.Size); x.Cursor++ {
		if looked >= most {
			r.Status = StatusMore
			return
		}
		for i := *c.ids.head(x.Cursor); i != 0; {
			j := c.jobs.At(i)
			looked++
			if i = j.Hash; c.isFlushed(j) || x.Visible != nil && !x.Visible(c.tubes[j.Tube].name) {
				continue
			}
			s := submittedJob{ID: j.ID, Background: true}
			if j.isSubmitted() {
				g := c.submissionOf(j)
				s.Lost, s.Background, s.Unique = c.submissions.progressOf(j.submission()).lost, g.is(Background), string(c.submissions.uniqueOf(g))
			}
			x.Jobs = append(x.Jobs, s)
		}
	}
}

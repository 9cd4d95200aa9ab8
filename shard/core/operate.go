package core

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"polystalk/shard/stats"
)

// askJob runs an AskJob.
func (c *Core) askJob(op *Op, r *Reply) {
	i, j, _ := c.find(op.ID)
	if i == 0 {
		r.Status = StatusNotFound
		return
	}
	b := c.browse(op.Operator)
	b.show(i)
	op.Operator.Version = c.version(j)
	r.Commit = j.Commit()
}

// version returns a hash of all that operators see of j. A visit has no time to hash a large
// body, so the number of the body takes its place.
func (c *Core) version(j *Job) uint64 {
	var b [84]byte
	le := binary.LittleEndian
	le.PutUint64(b[0:], uint64(j.Created))
	le.PutUint64(b[8:], uint64(j.Since))
	if j.State == Delayed || j.State == Reserved {
		le.PutUint64(b[16:], uint64(c.dueOf(j)))
	}
	for k, n := range [...]uint32{j.Pri, j.Delay, c.ttrOf(j), uint32(j.Client), j.Reserves, j.Timeouts, j.Releases, j.Buries, j.Kicks, uint32(j.State), j.Size} {
		le.PutUint32(b[24+4*k:], n)
	}
	if j.Flags&flagLarge != 0 {
		le.PutUint64(b[68:], c.large.Number(j.Body))
		le.PutUint64(b[76:], uint64(c.replayed)) // another process may give the same number to another body
		return xxhash.Sum64(b[:])
	}
	h := xxhash.New()
	h.Write(b[:]) // a hash's Write never fails
	h.Write(c.bodies.Get(j.Body, int(j.Size)))
	return h.Sum64()
}

// actOnMany runs an ActOnMany.
func (c *Core) actOnMany(op *Op, r *Reply) {
	x := op.Operator
	x.Seen, x.work = c.now, visitWork
	for _, id := range x.ids[:min(len(x.ids), actMax)] {
		s := StatusNotFound
		if i, j, t := c.find(id); i != 0 {
			s = StatusUnwanted
			if x.Filter.wants(j) {
				s = c.act(t, i, j, op)
			}
		}
		if s == StatusOK {
			r.N++
		}
		if x.Results = append(x.Results, s); s == StatusMore {
			return
		}
	}
}

// act applies an operator's action to one job. Afterwards the tube may be gone, and the job may
// belong to any client.
func (c *Core) act(t *tube, i uint32, j *Job, op *Op) Status {
	a := &op.Operator.Act
	switch {
	case j.isSubmitted() && c.submissionOf(j).is(cancelled):
		return StatusNotFound // it exists only for its worker
	case a.Verb >= VerbRead:
		return c.actMoving(t, i, j, op)
	case isTaken(j):
		return StatusMoving
	case j.State == Reserved && !a.Force:
		return StatusInUse
	}
	switch a.Verb {
	case VerbDelete:
		c.endJob(t, i, j)
	case VerbKick:
		if j.State != Buried && j.State != Delayed {
			return StatusUnfit
		}
		c.kick(t, i)
	case VerbBury:
		return c.buryByOperator(t, i, j, op)
	case VerbRelease:
		if j.State != Reserved {
			return StatusUnfit
		}
		c.leaveReserved(t, i, j)
		c.count(t, stats.Return)
		if j.isSubmitted() && c.unwanted(j) {
			c.dropJob(t, i, j)
			return StatusOK
		}
		c.enterReady(t, i, j)
		c.match(t)
	case VerbTouch:
		if j.State != Reserved {
			return StatusUnfit
		}
		c.touch(t, i, j)
	case VerbSet:
		if !c.fits(j, a) || a.Changes&ChangeBody != 0 {
			return StatusUnfit
		}
		c.change(t, i, j, a)
	default:
		return StatusUnfit
	}
	return StatusOK
}

// endJob ends a job for an operator. Its followers are told that it failed. If a worker runs
// it, the worker's reports go to no client, as after a cancel.
func (c *Core) endJob(t *tube, i uint32, j *Job) {
	if j.isSubmitted() {
		c.relay(j, c.submissionOf(j), RelayFailed, nil, nil)
		c.conclude(j)
		if j.State == Reserved {
			c.cancelRunning(t, j)
			return
		}
	}
	c.leave(t, i, j)
	c.dropJob(t, i, j)
}

// buryByOperator buries a job in any other state.
func (c *Core) buryByOperator(t *tube, i uint32, j *Job, op *Op) Status {
	if j.State == Buried {
		return StatusUnfit
	}
	var r Reply
	if j.isSubmitted() && c.unadmitted(j, op, &r) {
		return r.Status
	}
	c.leave(t, i, j)
	c.bury(t, i, j, BuriedByOperator)
	return StatusOK
}

// fits reports whether all changes of a apply to j.
func (c *Core) fits(j *Job, a *Action) bool {
	switch {
	case a.Changes == 0,
		a.Changes&ChangeDelay != 0 && j.State != Ready && j.State != Delayed,
		a.Changes&ChangeTTR != 0 && j.isSubmitted():
		return false
	case a.Changes&ChangeBody != 0 && j.isSubmitted():
		// Its followers have sent another body, and a submission that joins by body would not
		// find it.
		x := c.submissionOf(j)
		return x.Followers == 0 && !x.is(byBody)
	}
	return true
}

// change applies all changes of a job but a new body. Unless its delay changes, the job keeps
// its place in the order of arrival.
func (c *Core) change(t *tube, i uint32, j *Job, a *Action) {
	if a.Changes&ChangePri != 0 {
		c.changePri(t, i, j, a.Pri)
	}
	if a.Changes&ChangeTTR != 0 {
		j.setTTR(a.TTR)
	}
	moved := a.Changes&ChangeDelay != 0 && (j.State == Delayed || a.Delay > 0)
	if moved {
		j.Delay = a.Delay
		c.leave(t, i, j)
		if a.Delay > 0 {
			c.enterDelayed(t, i, j, c.delayUntil(a.Delay))
		} else {
			c.enterReady(t, i, j)
		}
	}
	if a.Changes&(ChangeTTR|ChangeBody) != 0 {
		c.recordPut(t, j) // an Update contains neither
	} else {
		c.recordUpdate(t, j)
	}
	switch {
	case j.State != Ready:
	case moved:
		c.match(t)
	default:
		c.serve(t) // it was ready before: no sleeping worker must be woken for it
	}
}

// changePri changes a job's priority in its container.
func (c *Core) changePri(t *tube, i uint32, j *Job, pri uint32) {
	switch j.State {
	case Ready:
		c.countClass(t, j.Pri, -1)
		e := *t.ready.At(int(j.Pos))
		e.B = pri
		t.ready.Set(c.jobs, int(j.Pos), e)
		c.countClass(t, pri, 1)
	case Delayed:
		t.countDelayed(j.Pri, -1)
		t.countDelayed(pri, 1)
	}
	j.Pri = pri
}

// edit runs an Edit.
func (c *Core) edit(op *Op, r *Reply) {
	x := op.Operator
	i, j, t := c.find(op.ID)
	switch {
	case i == 0, j.isSubmitted() && c.submissionOf(j).is(cancelled):
		r.Status = StatusNotFound
		return
	case op.Seq != 0 && op.Seq != c.version(j):
		r.Status = StatusChanged
		return
	case isTaken(j):
		r.Status = StatusMoving
		return
	case j.State == Reserved && !x.Act.Force:
		r.Status = StatusInUse
		return
	case !c.fits(j, &x.Act):
		r.Status = StatusUnfit
		return
	}
	if x.Act.Changes&ChangeBody != 0 && !c.changeBody(t, j, op) {
		r.Status = StatusOutOfMemory
		return
	}
	id := j.ID
	c.change(t, i, j, &x.Act)
	if _, j, _ := c.find(id); j != nil {
		x.Version = c.version(j)
	}
}

// changeBody gives a job another body. The caller must append the record. Without memory
// changeBody reports false and changes nothing.
func (c *Core) changeBody(t *tube, j *Job, op *Op) bool {
	var body, size uint32
	if op.Large != nil {
		body, size = c.large.Put(op.Large), uint32(op.Large.Len())
	} else {
		ref, ok := c.bodies.Put(op.Body)
		if !ok {
			return false
		}
		body, size = ref, uint32(len(op.Body))
	}
	if c.records(j) {
		c.account(t, j, -1)
	}
	c.weigh(t, 0, int64(size)-int64(j.Size))
	c.freeBody(j)
	j.Body, j.Size = body, size
	if j.Flags &^= flagLarge; op.Large != nil {
		j.Flags |= flagLarge
	}
	if c.records(j) {
		c.account(t, j, 1)
	}
	return true
}

package core

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"polystalk/shard/record"
)

// The core encodes records of its changes for a journal or for replicas. It only appends them
// to the buffer that it was given. A record describes the result of an operation, not the
// operation; the package comment explains why.

// A recorder is the part of a core that makes records.
type recorder struct {
	buf     *record.Buffer // nil: nothing is recorded
	scratch []byte         // the name of a tube that is being recorded
	pauses  int64          // see record.Buffer
}

// RecordTo makes the core append a record of every change that must outlive the process to
// buf. Apply must not run while the caller reads buf.
func (c *Core) RecordTo(buf *record.Buffer) { c.buf = buf }

// Records reports whether an operation may append records.
func (k opKind) Records() bool {
	switch k {
	case OpPut, OpDelete, OpRelease, OpBury, OpKick, OpKickJob, OpPause, OpReserveJob,
		OpUse, OpUnuse, OpIgnore, OpClose, opDropFunction, // the last tube's user ends its pause
		opSubmit, opReport, opCancelJob, opUnregister, opMany, opFlushStep, opEdit, opPutCopies, opSetPolicies:
		return true
	}
	return false
}

// records reports whether changes of j are recorded: of all jobs, except submitted jobs that
// run only while a client follows them.
func (c *Core) records(j *Job) bool {
	return c.buf != nil && (!j.isSubmitted() || c.submissionOf(j).is(Background))
}

// RecordsTimers reports whether timers may append records: when a job fails because it has
// lost its worker too often, when flushed jobs are collected, and by policies.
func (c *Core) RecordsTimers() bool {
	return c.submissions != nil && c.submissions.opts.Retries > 0 || c.collection != nil && c.collection.jobs > 0 ||
		c.policing != nil
}

// recordOf describes a job in the state in which a restart restores it, since reservations end
// with the process. The result is valid until the next call.
func (c *Core) recordOf(j *Job, t *tube, ahead Time) record.Job {
	r := record.Job{
		ID: uint64(j.ID), Created: int64(DayOf(j.Created, ahead)),
		Pri: j.Pri, Delay: j.Delay, TTR: c.ttrOf(j),
		State:  record.Ready,
		Counts: record.Counts{Reserves: j.Reserves, Timeouts: j.Timeouts, Releases: j.Releases, Buries: j.Buries, Kicks: j.Kicks},
	}
	state := j.State
	if isTaken(j) {
		state = c.moving[j.ID].was
	}
	if state == Reserved && t.recordsAttempts() {
		r.Counts.Reserves-- // a restart ends the attempt and buries no job, so it does not count
	}
	switch state {
	case Ready, Reserved:
		r.Due = int64(DayOf(j.Since, ahead)) // so that it is as old after a restart
	case Delayed:
		r.State, r.Due = record.Delayed, int64(DayOf(c.dueOf(j), ahead))
	case Buried:
		r.State, r.Due = record.Buried, int64(j.Since+c.buriedAhead) // only for the order, so not the time of day
	}
	c.scratch = append(c.scratch[:0], t.name...)
	r.Tube = c.scratch
	if j.isSubmitted() {
		r.Submitted = c.submittedRecord(j)
	}
	return r
}

// recordPut records a job in full.
func (c *Core) recordPut(t *tube, j *Job) {
	if !c.records(j) {
		return
	}
	r := c.recordOf(j, t, Time(c.buf.Ahead))
	var pieces Large
	if j.Flags&flagLarge != 0 {
		pieces = c.large.At(j.Body)
	} else {
		r.Body = c.bodies.Get(j.Body, int(j.Size))
	}
	c.buf.Put(&r, t.slot, pieces)
	j.setCommit(c.buf.Commit)
}

// recordNew is recordPut for a job that has no record yet.
func (c *Core) recordNew(t *tube, j *Job) {
	if c.records(j) {
		c.recordPut(t, j)
		c.account(t, j, 1)
	}
}

// numbersAhead is how many ids a record of recordNumber covers.
const numbersAhead = 1 << 16

// recordNumber keeps a restarted server from giving the id of an unrecorded job to another job while
// clients may still ask for the old one. Once per numbersAhead ids it records the delete of a job
// that never existed, which raises the highest id. Replies about the job wait for that record. A
// put with a higher id would also raise it, but its record may not be durable yet.
func (c *Core) recordNumber(t *tube, j *Job) {
	if c.buf == nil {
		return
	}
	if n := &c.submissions.numbered; uint64(j.ID) > n.id {
		n.id, n.commit = uint64(j.ID)+numbersAhead, c.buf.Commit
		c.buf.HighID = max(c.buf.HighID, n.id)
		c.buf.Delete(n.id, t.slot)
	}
	j.setCommit(c.submissions.numbered.commit)
}

// numbered has the highest id that recordNumber has covered, and the commit of that record.
type numbered struct{ id, commit uint64 }

// account updates the sums of the buffer, which describe a journal with one record for each
// job: n is 1 for a new job, and -1 for a job that ends.
func (c *Core) account(t *tube, j *Job, n int64) {
	more := 0
	if j.isSubmitted() {
		more = c.submittedRecord(j).Size()
	}
	size := record.JobSize(len(t.name)+more, int(j.Size))
	c.buf.Live += n * size
	c.buf.Largest = max(c.buf.Largest, record.LargestOf(size, int(j.Size)))
	c.buf.Jobs += n
	if c.buf.Live < 0 || c.buf.Jobs < 0 {
		panic(fmt.Sprintf("core: after job %d of %d bytes, %+d, the journal has %d jobs of %d bytes", j.ID, size, n, c.buf.Jobs, c.buf.Live))
	}
	c.buf.HighID = max(c.buf.HighID, uint64(j.ID))
}

// recordUpdate records the state, the priority, the delay and the counters of a job.
func (c *Core) recordUpdate(t *tube, j *Job) {
	if c.records(j) {
		r := c.recordOf(j, t, Time(c.buf.Ahead))
		c.buf.Update(&r, t.slot)
		if t.policy != nil {
			t.policy.changed = c.buf.Commit
		}
	}
}

// recordIfRoom is recordUpdate for a lost worker or a failed job. No command admitted room for
// such a change. On a Tight disk it records nothing, to keep the room that deletes need: after
// a restart the job is in its state before the change. The job itself is never lost.
func (c *Core) recordIfRoom(t *tube, j *Job) {
	if c.buf != nil && !c.buf.Tight {
		c.recordUpdate(t, j)
	}
}

// recordDelete records the end of a job.
func (c *Core) recordDelete(t *tube, j *Job) {
	if c.records(j) {
		c.buf.Delete(uint64(j.ID), t.slot)
		c.account(t, j, -1)
	}
}

// recordPause records the pause of a tube, or its end.
func (c *Core) recordPause(t *tube) {
	if c.buf == nil {
		return
	}
	until := t.pauseUntil
	if until != 0 {
		until = DayOf(until, Time(c.buf.Ahead))
	}
	c.buf.Pause(t.name, t.slot, int64(until), int64(Time(t.pauseFor)*Second))
}

// CopyJob records a job in full again, unless it has ended, or was recorded in full after the
// commit after.
func (c *Core) CopyJob(id JobID, after uint64) {
	if i, j, t := c.find(id); i != 0 && j.Commit() <= after {
		c.recordPut(t, j)
	}
}

// NeedsCopy reports whether CopyJob would record a job.
func (c *Core) NeedsCopy(id JobID, after uint64) bool {
	i, j, _ := c.find(id)
	return i != 0 && j.Commit() <= after
}

// CopyPolicies records the set of policies again, if the core records one with any.
func (c *Core) CopyPolicies() {
	if len(c.RecordedPolicies().List()) > 0 {
		c.recordPolicies()
	}
}

// CopyOther records what an earlier Pause or Policies record describes, as it is now.
func (c *Core) CopyOther(r *record.Record) {
	switch r.Kind {
	case record.KindPause:
		c.CopyPause(r.Tube)
	case record.KindPolicies:
		c.CopyPolicies()
	}
}

// CopyPause records the pause of a tube again, if there is one.
func (c *Core) CopyPause(tube []byte) {
	if t := c.findTube(tube); t != nil && t.pauseUntil != 0 {
		c.recordPause(t)
	}
}

// Digest returns a hash of the state that a replay of the core's records restores: its jobs, and
// the pauses of its tubes, as of the moment now, when the time of day is ahead by ahead. Cores
// with the same state have the same digest, whatever their history: a reserved job counts as
// ready. It ignores what changes without a record: counters of a job, the moment since which it
// is ready, and clients. A change that was not recorded because the disk was full (see
// record.Buffer) makes a difference until the job changes again. A flushed job that is not
// collected yet is gone in this core, and present in a replayed one.
//
// Its cost is linear in jobs and bodies, for which it also takes memory: it is for tests.
func (c *Core) Digest(now, ahead Time) uint64 {
	var all [][]byte
	c.eachJob(func(j *Job) {
		if j.isSubmitted() && !c.submissionOf(j).is(Background) {
			return
		}
		t := c.tubes[j.Tube]
		r := c.recordOf(j, t, ahead)
		if r.Counts = (record.Counts{}); r.State == record.Ready || r.State == record.Delayed && c.dueOf(j) <= now {
			r.State, r.Due = record.Ready, 0
		}
		all = append(all, append(r.AppendPut(nil, t.slot, int(j.Size)), c.bodyOf(j)...))
	})
	for _, t := range c.tubes {
		if t != nil && t.pauseUntil > now {
			all = append(all, fmt.Appendf(nil, "%q %d %d", t.name, DayOf(t.pauseUntil, ahead), t.pauseFor))
		}
	}
	if list := c.RecordedPolicies().List(); len(list) > 0 {
		all = append(all, record.AppendPolicies(nil, list))
	}
	slices.SortFunc(all, bytes.Compare)
	return xxhash.Sum64(bytes.Join(all, nil))
}

package core

import (
	"errors"
	"fmt"
	"slices"

	"polystalk/shard/record"
	"polystalk/shard/slab"
)

// errMemory is the error of a replay when there is no memory for a job.
var errMemory = errors.New("out of memory for the journal's jobs")

// A Replay builds a core's state from records, in the order in which they were written. The
// core must be new, and must not be used otherwise before Done.
//
// A Replay may stay open: a follower calls Settle once it has caught up, and then continues
// with Apply. Before the first Settle, Apply only makes jobs, since most jobs of a journal have
// ended later. Settle then computes orders and sums once for the remaining jobs. From then on
// each Apply keeps them up to date, so the cost of the next Settle and of Done does not depend
// on the number of jobs:
//
//	Replay ─► Apply … ─► Done                              a start: Done does all of Settle
//	Replay ─► Apply … ─► Settle ─► Apply, Settle … ─► Done  a follower, which may wait for long
type Replay struct {
	// Ahead is the time of day, which records contain, minus the core's time; see timer.go.
	// It may be changed before any Apply.
	Ahead Time

	// Hear is called for each job that appears or ends after the first Settle; EachID lists the
	// jobs of that moment. An existing job may be reported again. May be nil.
	Hear func(id JobID, lives bool)

	c       *Core
	partial map[uint64]*partialJob // by id
	highID  uint64                 // includes ended jobs, since ids are never used again

	settled   bool               // Apply keeps lists in order, and forgets empty tubes
	accounted bool               // Apply updates the sums of the core's buffer
	unsorted  map[*tube]struct{} // tubes with a list that is not in order although settled
}

// A partialJob waits for its body's Chunks.
type partialJob struct {
	rec  record.Record
	body Large
	got  uint64
}

// Replay starts a replay.
func (c *Core) Replay() *Replay {
	return &Replay{c: c, partial: make(map[uint64]*partialJob), unsorted: make(map[*tube]struct{})}
}

// Apply applies one record; its slices are only read during the call. It ignores records of
// unknown jobs: the segment with their Put was removed because a Delete or a Copy follows.
func (p *Replay) Apply(r *record.Record) error {
	p.highID = max(p.highID, r.ID)
	switch r.Kind {
	case record.KindPut, record.KindCopy:
		if r.Chunked > 0 {
			part := &partialJob{rec: *r}
			part.rec.Tube = slices.Clone(r.Tube)
			if s := r.Submitted; s != nil {
				s.Unique, s.Reducer = slices.Clone(s.Unique), slices.Clone(s.Reducer)
			}
			p.partial[r.ID] = part
			return nil
		}
		return p.put(r, nil)
	case record.KindChunk:
		part := p.partial[r.ID]
		if part == nil {
			return nil
		}
		part.got += uint64(len(r.Body))
		if part.got > part.rec.Chunked {
			return fmt.Errorf("job %d has a body longer than the %d bytes it announces", r.ID, part.rec.Chunked)
		}
		part.body = append(part.body, slices.Clone(r.Body))
		if part.got == part.rec.Chunked {
			delete(p.partial, r.ID)
			return p.put(&part.rec, part.body)
		}
	case record.KindUpdate:
		if i, j, t := p.c.find(JobID(r.ID)); i != 0 {
			was := p.spotOf(j)
			p.c.leave(t, i, j)
			if r.Submitted != nil && j.isSubmitted() {
				p.c.submissions.setProgress(j.submission(), progress{lost: r.Submitted.Lost})
			}
			p.place(t, i, j, r, was)
		}
	case record.KindDelete:
		// It must have the slot of the job. A record of recordNumber may have the id of a job of
		// another shard and come after its Put: within a batch the logs of shards have no order.
		if part := p.partial[r.ID]; part != nil && part.rec.Slot == r.Slot {
			delete(p.partial, r.ID)
		}
		if i, j, t := p.c.find(JobID(r.ID)); i != 0 && t.slot == r.Slot {
			p.remove(t, i, j)
			p.tell(r.ID, false)
			p.rest(t)
		}
	case record.KindPause:
		t := p.tube(r.Tube, r.Slot)
		until := Time(r.Until)
		if until != 0 {
			until = DayOf(until, -p.Ahead)
		}
		p.c.setPause(t, until, uint32(Time(r.Length)/Second))
		p.c.refresh(t)
		p.rest(t)
	case record.KindPolicies:
		p.c.keepPolicies(NewPolicies(r.Policies))
	case record.KindFloor:
		p.highID = max(p.highID, r.Floor.HighID)
	case record.KindEpoch:
		p.Gap() // no record so far completes these bodies
	}
	return nil
}

// Gap tells the replay that records are missing here. It forgets incomplete bodies, since their
// remaining chunks may be among the missing records, and returns their number.
func (p *Replay) Gap() int {
	n := len(p.partial)
	clear(p.partial)
	return n
}

// tube opens a tube without telling the directory, since most tubes may be empty at the end.
func (p *Replay) tube(name []byte, slot uint16) *tube {
	dir := p.c.dir
	p.c.dir = nil
	t := p.c.openTube(name)
	p.c.dir = dir
	return t
}

// put makes the job of a Put or a Copy. Its body is in r, or in large.
func (p *Replay) put(r *record.Record, large Large) error {
	was := spot{}
	if i, j, t := p.c.find(JobID(r.ID)); i != 0 {
		was = p.spotOf(j)
		p.remove(t, i, j) // r is a Copy, with all of the job
	}
	op := Op{ID: JobID(r.ID), Body: r.Body, Large: large}
	if large == nil && len(r.Body) > slab.MaxSize {
		op.Large = Large{slices.Clone(r.Body)} // from a source without Chunks
	}
	i, j := p.c.newJob(&op)
	if i == 0 {
		return errMemory
	}
	t := p.tube(r.Tube, r.Slot)
	j.setTTR(r.TTR)
	if r.Submitted != nil && !p.submitted(t, i, j, &op, r.Submitted) {
		return errMemory
	}
	j.Created = DayOf(Time(r.Created), -p.Ahead)
	j.setCommit(r.Commit)
	p.c.countIn(t, j)
	t.arrived++
	p.c.sums.arrived++
	p.place(t, i, j, r, was)
	if p.accounted {
		p.c.account(t, j, 1)
	}
	p.tell(r.ID, true)
	return nil
}

// tell calls Hear, if it is set.
func (p *Replay) tell(id uint64, lives bool) {
	if p.settled && p.Hear != nil {
		p.Hear(JobID(id), lives)
	}
}

// submitted gives j its submission. It reports false when there is no memory.
func (p *Replay) submitted(t *tube, i uint32, j *Job, op *Op, s *record.Submitted) bool {
	c := p.c
	c.makeFunction(t)
	op.Function = &FunctionOp{Background: true, ByBody: s.ByBody}
	op.Function.setUnique(s.Unique)
	op.Function.setReducer(s.Reducer)
	if !c.newSubmission(t, i, j, op) {
		return false
	}
	x := c.submissionOf(j)
	c.submissions.setProgress(j.submission(), progress{lost: s.Lost})
	if !s.Joinable {
		c.submissions.unindex(j.submission(), x)
	}
	return true
}

// place brings a job that is in no container into the recorded state. was is its place before that.
func (p *Replay) place(t *tube, i uint32, j *Job, r *record.Record, was spot) {
	n := &r.Counts
	j.Pri, j.Delay = r.Pri, r.Delay
	j.Reserves, j.Timeouts, j.Releases, j.Buries, j.Kicks = n.Reserves, n.Timeouts, n.Releases, n.Buries, n.Kicks
	switch r.Job.State {
	case record.Delayed:
		due := DayOf(Time(r.Due), -p.Ahead)
		p.c.enterDelayed(t, i, j, due)
		j.Since = due - Time(j.Delay)*Second
	case record.Buried:
		p.c.enterBuried(t, i, j)
		j.setBuriedBy(BuriedUnknown)
		if j.isSubmitted() {
			p.c.conclude(j)
		}
		j.Buries = n.Buries // the recorded count includes this burial
		j.Since = Time(r.Due)
	default:
		p.c.enterReady(t, i, j)
		switch {
		case r.Due != 0:
			j.Since = DayOf(Time(r.Due), -p.Ahead)
		case r.Kind == record.KindPut:
			j.Since = j.Created + Time(j.Delay)*Second // the put is its only change
		default: // of a journal without this moment
			j.Since = j.Created
		}
	}
	if p.settled {
		p.order(t, i, j, was)
	}
}

// remove forgets a job as if it had never existed.
func (p *Replay) remove(t *tube, i uint32, j *Job) {
	if p.accounted {
		p.c.account(t, j, -1)
	}
	p.c.leave(t, i, j)
	p.c.countOut(t, j)
	p.c.freeJob(i, j)
	t.arrived--
	p.c.sums.arrived--
}

// Settle puts all jobs that were applied so far in order at the moment now: jobs with a
// finished delay become ready, finished pauses end, unused tubes are forgotten. The cost of the
// first call is linear in jobs. The cost of later calls is linear in tubes and in the jobs that
// became ready since the last one, so a follower should call it regularly. If the core records
// already, the sums of its buffer are exact from here on.
func (p *Replay) Settle(now Time) {
	c := p.c
	c.advance(now)
	for _, t := range c.tubes {
		if t == nil {
			continue
		}
		p.ripen(t)
		if _, some := p.unsorted[t]; some || !p.settled {
			p.sortLists(t)
		}
		if t.pauseUntil != 0 && t.pauseUntil <= c.now {
			c.setPause(t, 0, 0)
			c.refresh(t)
		}
	}
	clear(p.unsorted)
	p.settled = true
	for _, t := range c.tubes {
		if t != nil {
			p.rest(t)
		}
	}
	if c.buf == nil {
		return
	}
	if !p.accounted {
		p.accounted = true
		c.eachJob(func(j *Job) { c.account(c.tubes[j.Tube], j, 1) })
	}
	c.buf.HighID = max(c.buf.HighID, p.highID)
	c.buf.Pauses = c.pauses
}

// Done ends the replay, and brings the core's state to the moment now. It tells the core's
// directory of the tubes.
func (p *Replay) Done(now Time) {
	p.Settle(now)
	c := p.c
	for _, t := range c.tubes {
		if t == nil {
			continue
		}
		p.untilNow(t)
		if c.dir != nil && !t.pinned { // the directory knows it
			c.dir.TubeAdded(t.name)
			c.classify(t)
		}
	}
	p.buriedByNow()
	c.replayed = c.now
}

// rest forgets a tube, or its function, if nothing needs it any more. Before the first Settle
// it does nothing: later records may name the tube again.
func (p *Replay) rest(t *tube) {
	if !p.settled {
		return
	}
	c := p.c
	// No client uses the tube until clients reconnect. Without pauseKeeps it would be forgotten,
	// and its pause with it.
	t.pauseKeeps = t.pauseUntil != 0
	c.timers.want(&t.timer, c.tubeDue(t))
	if t.jobs > 0 {
		return
	}
	t.function = nil // it is made again when somebody names it
	dir := c.dir
	c.dir = nil
	c.closeTube(t)
	c.dir = dir
}

// ripen makes jobs with a finished delay ready. They are ready since the end of the delay, so
// they come before jobs that became ready later.
func (p *Replay) ripen(t *tube) {
	c := p.c
	for t.delay.N > 0 && Time(t.delay.top().A) <= c.now {
		e := *t.delay.top()
		j := c.jobs.At(e.Job)
		c.leaveDelayed(t, e.Job, j)
		c.enterReady(t, e.Job, j)
		j.Since = Time(e.A)
		if p.settled {
			p.order(t, e.Job, j, spot{})
		}
	}
}

// A spot is a former place of a job: a list, and the job before it. The zero value is no place.
type spot struct {
	behind uint32 // the job before it; zero: it was the first
	tube   TubeID
	state  State
}

// spotOf returns the place of j.
func (p *Replay) spotOf(j *Job) spot { return spot{j.Prev, j.Tube, j.State} }

// orderMost is how many jobs order examines to find the place of a job.
const orderMost = 64

// order moves job i from the end of its list to the place of its Since, which nearly always is
// the end. The place of a copy is the job's former one. Other jobs move by few places, unless a
// clock was set: then the list stays unsorted until the next Settle.
func (p *Replay) order(t *tube, i uint32, j *Job, was spot) {
	c := p.c
	if j.Prev == 0 || c.jobs.At(j.Prev).Since <= j.Since {
		return
	}
	l := t.listOf(j.State)
	l.Remove(c.jobs, i, j)
	if was.tube == t.id && was.state == j.State && p.fitsBehind(l, was.behind, j) {
		l.pushBehind(c.jobs, was.behind, i, j)
		return
	}
	behind := l.Tail
	for range orderMost {
		if behind == 0 || c.jobs.At(behind).Since <= j.Since {
			l.pushBehind(c.jobs, behind, i, j)
			return
		}
		behind = c.jobs.At(behind).Prev
	}
	l.pushBack(c.jobs, i, j)
	p.unsorted[t] = struct{}{}
}

// fitsBehind reports whether j may follow the job behind in l, its former place; zero: whether
// it may be the first. The list may have changed since then.
func (p *Replay) fitsBehind(l *List, behind uint32, j *Job) bool {
	next := l.Head
	if behind != 0 {
		b := p.c.jobs.At(behind)
		if b.Tube != j.Tube || b.State != j.State || b.Since > j.Since {
			return false
		}
		next = b.Next
	}
	return next == 0 || p.c.jobs.At(next).Since >= j.Since
}

// sortLists restores the order of arrival in lists: a Copy has put a job behind later ones.
func (p *Replay) sortLists(t *tube) {
	for _, l := range []*List{&t.readyList, &t.delayList, &t.buried} {
		l.sort(p.c.jobs)
	}
}

// untilNow moves moments after now, which a clock that was set back leaves, to now.
func (p *Replay) untilNow(t *tube) {
	c := p.c
	for _, l := range []*List{&t.readyList, &t.delayList} {
		for i := l.Tail; i != 0 && c.jobs.At(i).Since > c.now; i = c.jobs.At(i).Prev {
			c.jobs.At(i).Since = c.now
		}
	}
	if i := t.buried.Tail; i != 0 {
		c.buriedAt = max(c.buriedAt, c.jobs.At(i).Since)
	}
}

// buriedByNow removes burials after now. A journal has such burials if the machine's clock was
// set back. Then all burials are moved back by the same time, and records of this process add
// it again, so that they continue the order of the journal. A second is tolerated, since many
// burials at once run ahead of the clock; see enterBuried.
func (p *Replay) buriedByNow() {
	c := p.c
	ahead := c.buriedAt - c.now
	if ahead <= Second {
		return
	}
	for _, t := range c.tubes {
		if t == nil {
			continue
		}
		for i := t.buried.Head; i != 0; i = c.jobs.At(i).Next {
			c.jobs.At(i).Since -= ahead
		}
	}
	c.buriedAt, c.buriedAhead = c.now, ahead
}

// EachID calls f for every job's id, in no order.
func (c *Core) EachID(f func(JobID)) { c.eachJob(func(j *Job) { f(j.ID) }) }

// eachJob calls f for every job, which f may free, in no order.
func (c *Core) eachJob(f func(*Job)) {
	for b := range uint64(c.ids.Size) {
		for i := *c.ids.head(b); i != 0; {
			j := c.jobs.At(i)
			if i = j.Hash; !c.isFlushed(j) {
				f(j)
			}
		}
	}
}

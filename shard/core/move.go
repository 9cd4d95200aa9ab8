package core

import (
	"fmt"
)

// A move of a job to another tube, which usually belongs to another core, takes three visits.
// The first takes the job, so no client can get it. The second puts a copy into the other tube.
// The third drops the taken job once the copy is durable, or puts it back if there was no room
// for the copy.
//
// It would be simpler to put a hidden copy first, and to delete the job if it has not changed.
// But a worker may delete the job in between and get an acknowledgment. If the server crashes
// before the end of the copy is durable, that job comes back under another id. A taken job
// cannot be deleted, so no acknowledged delete is undone: a crash leaves the job, the copy, or
// both. A move within one core also makes a copy: otherwise the hashes of the tubes' names
// would decide whether a job keeps its id.
//
// To all other clients a taken job looks reserved by another client, in statistics and in
// replies. But it belongs to no client: Client is zero, it is in no counter of a client and not
// in the tube's flow, and records show its old state. The operator that took it must put it
// back or drop it in any case: the core never does.

// moving is the state of a taken job before it was taken. The job keeps its Since.
type moving struct {
	was  State
	turn ClientID // of a ready job; see entry
	at   uint64   // A of its entry: for a delayed job, when it is due
	// The jobs next to it in its list, or the point where a search for its place stopped; zero:
	// none.
	before, behind JobID
}

// takenMost is how many bytes of bodies a visit copies, if it copies more than one body.
const takenMost = 256 << 10

// isTaken reports whether an operator has taken j for a move.
func isTaken(j *Job) bool { return j.State == Reserved && j.Client == 0 }

// actMoving applies a verb of a move to a job.
func (c *Core) actMoving(t *tube, i uint32, j *Job, op *Op) Status {
	taken := isTaken(j)
	switch v := op.Operator.Act.Verb; {
	case v == VerbRead, v == VerbTake && !taken && j.State != Reserved:
		return c.read(t, i, j, op)
	case v == VerbTake && !taken:
		return StatusInUse
	case v == VerbTake:
		return StatusMoving
	case !taken:
		return StatusUnfit
	case v == VerbPutBack:
		return c.putBack(t, i, j, op.Operator)
	case v == VerbDrop:
		c.leaveTaken(t, j)
		c.arrive(t, -1) // the job is in another tube
		c.removeJob(t, i, j)
		return StatusOK
	}
	return StatusUnfit
}

// read appends a job with its body to the rows, and takes it for VerbTake. A job that another
// operation has already taken is shown in its old state.
func (c *Core) read(t *tube, i uint32, j *Job, op *Op) Status {
	x := op.Operator
	takes := x.Act.Verb == VerbTake
	if j.isSubmitted() {
		s := c.submissionOf(j)
		switch {
		case takes && s.Followers != 0:
			return StatusAwaited // the followers of its id would never get a result
		case s.ReducerLen > 0:
			return StatusUnfit // a job that was put has none
		}
	}
	switch {
	case j.Flags&flagLarge != 0:
		if op.Admitted < j.Size {
			return StatusUnadmitted
		}
	case len(x.Jobs) > 0 && len(x.Bodies)+int(j.Size) > takenMost:
		return StatusMore
	}
	row := c.jobRow(j, x)
	if isTaken(j) {
		m := c.moving[j.ID]
		switch row.State = m.was; m.was {
		case Delayed:
			row.TimeLeft = max(0, Time(m.at)-c.now)
		case Buried:
			row.BuriedBy = t.reasonOf(j)
		}
	}
	if row.Large == nil {
		row.BodySize = int(j.Size)
		x.Bodies = append(x.Bodies, c.bodies.Get(j.Body, int(j.Size))...)
	}
	x.Jobs = append(x.Jobs, row)
	if takes {
		c.take(t, i, j)
	}
	return StatusOK
}

// take takes a job that is not reserved.
func (c *Core) take(t *tube, i uint32, j *Job) {
	m := moving{was: j.State, turn: j.Client}
	switch j.State {
	case Ready:
		m.at = t.ready.At(int(j.Pos)).A
	case Delayed:
		m.at = t.delay.At(int(j.Pos)).A
	}
	if j.Prev != 0 {
		m.before = c.jobs.At(j.Prev).ID
	}
	if j.Next != 0 {
		m.behind = c.jobs.At(j.Next).ID
	}
	c.leave(t, i, j)
	j.State = Reserved
	t.reserved++
	if t.policy != nil {
		c.refresh(t)
		c.publish(t)
	}
	c.counts.Reserved++
	if c.moving == nil {
		c.moving = make(map[JobID]moving)
	}
	c.moving[j.ID] = m
}

// leaveTaken takes j out of the taken jobs.
func (c *Core) leaveTaken(t *tube, j *Job) {
	if _, ok := c.moving[j.ID]; !ok || !isTaken(j) {
		panic(fmt.Sprintf("core: job %d of tube %q is %s, of client %d, and is said to be taken", j.ID, t.name, j.State, j.Client))
	}
	if delete(c.moving, j.ID); len(c.moving) == 0 {
		c.moving = nil // a map never shrinks
	}
	j.State = Nowhere
	t.reserved--
	if t.policy != nil {
		c.freeByPolicy(t)
	}
	c.counts.Reserved--
}

// putBack returns a taken job to its old place. A delayed job returns to it even if it is due:
// the timer of its tube makes it ready. StatusMore: its place is not found yet.
func (c *Core) putBack(t *tube, i uint32, j *Job, x *OperatorOp) Status {
	m := c.moving[j.ID]
	l := t.listOf(m.was)
	before, ok := c.placeOf(l, j, &m, &x.work)
	if !ok {
		c.moving[j.ID] = m
		return StatusMore
	}
	c.leaveTaken(t, j)
	since, buriedAt := j.Since, c.buriedAt
	switch m.was {
	case Ready:
		c.enterReadyAt(t, i, j, since, JobID(m.at), uint32(m.turn))
	case Delayed:
		c.enterDelayed(t, i, j, Time(m.at))
	case Buried:
		c.enterBuried(t, i, j)
		j.Buries--
		c.buriedAt = buriedAt
	}
	j.Since = since
	l.Remove(c.jobs, i, j)
	l.pushBehind(c.jobs, before, i, j)
	if t.flushed != nil {
		t.flushed.spare(j)
	}
	if m.was == Ready {
		c.match(t)
	}
	return StatusOK
}

// placeOf finds the job of l behind which j has its place; zero is the front. It starts at the
// old neighbors of j or, if both have left, at the nearer end of the list. Not ok: the work of
// the visit is done, and m says where to continue.
func (c *Core) placeOf(l *List, j *Job, m *moving, work *int) (before uint32, ok bool) {
	there := func(id JobID) (uint32, *Job) {
		i, o, _ := c.find(id)
		if i == 0 || o.State != m.was || o.Tube != j.Tube {
			return 0, nil
		}
		return i, o
	}
	back := false // search from the job at before towards the front
	if i, o := there(m.before); i != 0 && o.Since <= j.Since {
		before = i
	} else if i, o := there(m.behind); i != 0 && o.Since >= j.Since {
		before, back = o.Prev, true
	} else if l.N > 0 {
		first, last := c.jobs.At(l.Head).Since, c.jobs.At(l.Tail).Since
		if back = last-j.Since < j.Since-first; back {
			before = l.Tail
		}
	}
	for ; *work > 0; *work-- {
		if back {
			if before == 0 || c.jobs.At(before).Since <= j.Since {
				return before, true
			}
			before = c.jobs.At(before).Prev
			continue
		}
		next := l.Head
		if before != 0 {
			next = c.jobs.At(before).Next
		}
		if next == 0 || c.jobs.At(next).Since >= j.Since {
			return before, true
		}
		before = next
	}
	switch {
	case before == 0:
	case back:
		m.before, m.behind = 0, c.jobs.At(before).ID
	default:
		m.before, m.behind = c.jobs.At(before).ID, 0
	}
	return 0, false
}

// putCopies runs a PutCopies.
func (c *Core) putCopies(op *Op, r *Reply) {
	x := op.Operator
	t := c.openTube(op.Name)
	r.Tube = t.id
	for k, id := range x.ids[:min(len(x.ids), actMax)] {
		row := &x.Jobs[k]
		body := x.Bodies[row.BodyAt : row.BodyAt+row.BodySize]
		copied := Op{ID: id, Body: body, Large: row.Large}
		if t.policy != nil && x.Act.Verb != VerbTake && row.State != Buried && !c.admits(t, copied.size()) {
			x.Results = append(x.Results, StatusFull)
			continue
		}
		i, j := c.newJob(&copied)
		if i == 0 {
			x.Results = append(x.Results, StatusOutOfMemory)
			continue
		}
		x.Results = append(x.Results, StatusOK)
		r.N++
		c.enterCopy(t, i, j, row, x.Seen)
		if x.Act.Verb == VerbTake {
			c.arrive(t, 1)
		} else {
			t.total++
			c.counts.Total++
		}
		if j.State == Ready {
			c.match(t)
		}
	}
	c.closeTube(t)
}

// arrive counts n jobs that enter a tube without a put; n is negative for jobs that leave.
func (c *Core) arrive(t *tube, n int32) {
	t.arrived += n
	c.sums.arrived += int64(n)
}

// enterCopy gives a new job the state that another job had at the moment seen.
func (c *Core) enterCopy(t *tube, i uint32, j *Job, from *JobRow, seen Time) {
	j.Created = min(c.now, seen-max(0, from.Age))
	j.Pri, j.Delay = from.Pri, from.Delay
	j.setTTR(from.TTR)
	c.countIn(t, j)
	switch due := seen + from.TimeLeft; {
	case from.State == Delayed && due > c.now:
		j.Delay = uint32((due - c.now + Second - 1) / Second)
		c.enterDelayed(t, i, j, due)
	case from.State == Buried:
		j.setBuriedBy(from.BuriedBy)
		c.enterBuried(t, i, j)
	default:
		c.enterReady(t, i, j)
	}
	j.Reserves, j.Timeouts, j.Releases = from.Reserves, from.Timeouts, from.Releases
	j.Buries, j.Kicks = from.Buries, from.Kicks
	c.recordNew(t, j)
}

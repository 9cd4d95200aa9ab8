package core

import (
	"fmt"
)

// To move a job to another tube, which is another core's as a rule, takes three visits. The
// first takes the job: nobody gets it any more. The second puts a copy into the other tube.
// Once that is durable the third drops what was taken; or it puts it back, if there was no
// place for the copy.
//
// It is simpler to put the copy first, hidden, and then to delete the job if nothing has
// happened to it. But then a worker may be given the job and delete it in between, and is
// told that it is deleted; and a crash before the end of the copy is durable brings the job
// back under another id. A job that is taken cannot be deleted, so nothing that was
// acknowledged is undone: a crash leaves the job, the copy, or both. Nor is a job given a new
// tube where it is, though both were here: then its id would stay or not, as the names of the
// tubes happen to be hashed.
//
// To all other clients a taken job is reserved by another client: in statistics, and in the
// answers to commands that name it. But it belongs to no client: Client is zero, it is in none
// of the client's counters or the tube's flow, and a journal does not know it, also a journal
// that copies the job meanwhile. The operator that took it must end that in any case: nothing
// here does.

// A moving job is one that was taken, and how it was. Since is in the job as it was.
type moving struct {
	was  State
	turn ClientID // of a ready one; see Entry
	at   uint64   // of its Entry: of a delayed one, when it is due
	// The jobs next to it in its list, or what a search for its place has found instead; zero:
	// none.
	before, behind JobID
}

// takenMost bytes of bodies are copied in a visit, or one body.
const takenMost = 256 << 10

// isTaken reports whether an operator has taken j, to move it.
func isTaken(j *Job) bool { return j.State == Reserved && j.Client == 0 }

// actMoving does one of the verbs of a move to a job.
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

// read appends a job with its body to the rows, and takes it if it is to be moved. One that
// is taken already, for which somebody else wants a copy, is told of as it was.
func (c *Core) read(t *tube, i uint32, j *Job, op *Op) Status {
	x := op.Operator
	takes := x.Act.Verb == VerbTake
	if j.isSubmitted() {
		s := c.submissionOf(j)
		switch {
		case takes && s.Followers != 0:
			return StatusAwaited // by its id, which would end without a result
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
		if row.State = m.was; m.was == Delayed {
			row.TimeLeft = max(0, Time(m.at)-c.now)
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

// take takes a job that nobody has.
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
	c.counts.Reserved++
	if c.moving == nil {
		c.moving = make(map[JobID]moving)
	}
	c.moving[j.ID] = m
}

// leaveTaken ends that j is taken.
func (c *Core) leaveTaken(t *tube, j *Job) {
	if _, ok := c.moving[j.ID]; !ok || !isTaken(j) {
		panic(fmt.Sprintf("core: job %d of tube %q is %s, of client %d, and is said to be taken", j.ID, t.name, j.State, j.Client))
	}
	if delete(c.moving, j.ID); len(c.moving) == 0 {
		c.moving = nil // a map never shrinks
	}
	j.State = Nowhere
	t.reserved--
	c.counts.Reserved--
}

// putBack brings a job that was taken to where it was: a delayed one that is due by now too,
// and the timer of its tube finds it there. StatusMore: its place was not found yet.
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

// placeOf finds the job of l behind which j has its place, zero being the front. It looks
// where j was, and if those have gone that it was between, from that end of the list which is
// nearer. Not ok: the work is spent; m says where to go on.
func (c *Core) placeOf(l *List, j *Job, m *moving, work *int) (before uint32, ok bool) {
	there := func(id JobID) (uint32, *Job) {
		i, o, _ := c.find(id)
		if i == 0 || o.State != m.was || o.Tube != j.Tube {
			return 0, nil
		}
		return i, o
	}
	back := false // from the job at before on to the front
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

// putCopies puts copies of the jobs in the rows.
func (c *Core) putCopies(op *Op, r *Reply) {
	x := op.Operator
	t := c.openTube(op.Name)
	r.Tube = t.id
	for k, id := range x.ids[:min(len(x.ids), actMax)] {
		row := &x.Jobs[k]
		body := x.Bodies[row.BodyAt : row.BodyAt+row.BodySize]
		i, j := c.newJob(&Op{ID: id, Body: body, Large: row.Large})
		if i == 0 {
			x.Results = append(x.Results, StatusOutOfMemory)
			continue
		}
		x.Results = append(x.Results, StatusOK)
		r.N++
		c.enterCopy(t, i, j, &row.JobStats, x.Seen)
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

// arrive counts jobs that come to a tube or leave it without a put or a delete.
func (c *Core) arrive(t *tube, n int32) {
	t.arrived += n
	c.sums.arrived += int64(n)
}

// enterCopy brings a new job into the state of another one, as that was at a moment.
func (c *Core) enterCopy(t *tube, i uint32, j *Job, from *JobStats, seen Time) {
	j.Created = min(c.now, seen-max(0, from.Age))
	j.Pri, j.Delay = from.Pri, from.Delay
	j.setTTR(from.TTR)
	c.countIn(t, j)
	switch due := seen + from.TimeLeft; {
	case from.State == Delayed && due > c.now:
		j.Delay = uint32((due - c.now + Second - 1) / Second)
		c.enterDelayed(t, i, j, due)
	case from.State == Buried:
		c.enterBuried(t, i, j)
	default:
		c.enterReady(t, i, j)
	}
	j.Reserves, j.Timeouts, j.Releases = from.Reserves, from.Timeouts, from.Releases
	j.Buries, j.Kicks = from.Buries, from.Kicks
	c.recordNew(t, j)
}

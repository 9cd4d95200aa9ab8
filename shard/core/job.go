package core

import (
	"fmt"

	"polystalk/shard/slab"
)

// State is the place a job is in.
type State uint8

// The four states of a job. A job has none of them only while an operation moves it.
const (
	nowhere State = iota
	Ready
	Delayed
	Reserved
	Buried
)

// String is the state's word in stats-job.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Delayed:
		return "delayed"
	case Reserved:
		return "reserved"
	case Buried:
		return "buried"
	}
	return "invalid"
}

// A job is a pointer-free record in a slab, so that the collector has nothing
// to walk. Its State names the containers it is in:
//
//	Ready     tube.ready  heap by (pri, id)
//	Delayed   tube.delay  heap by (deadline, id)
//	Reserved  client.held list, oldest reservation first, and
//	          client.due  heap by (deadline, id)
//	Buried    tube.buried list, oldest first
//
// deadline is zero when Ready, the moment of burial when Buried, and in time awake
// (time.go) when Reserved. Source: beanstalkd doc/protocol.txt.
type job struct {
	id       JobID
	created  Time
	deadline Time
	body     uint32 // slab reference; an index into Core.large for a large one
	size     uint32 // bytes of the body
	pri      uint32
	delay    uint32 // seconds, as last set
	ttr      uint32 // seconds; of a submitted job see submission
	tube     TubeID
	client   ClientID // who reserved it
	prev     uint32   // list links; a job is in one list at most. Ready: see heapEntry
	next     uint32
	pos      uint32 // index in its heap
	hash     uint32 // next job in its bucket of the id table
	reserves uint32
	timeouts uint32
	releases uint32
	buries   uint32
	kicks    uint32
	state    State
	flags    jobFlags

	commitHigh uint16 // see commit
	commitLow  uint32
}

// jobFlags say what else a job is.
type jobFlags uint8

const (
	flagLarge     jobFlags = 1 << iota // its body is in Core.large
	flagSubmitted                      // it was submitted, not put: there is a submission
)

// isSubmitted reports whether the job was submitted to a function, not put.
func (j *job) isSubmitted() bool { return j.flags&flagSubmitted != 0 }

// submission is the index of a submitted job's submission, which has the place of a time
// to run: such a job has none of its own.
func (j *job) submission() uint32 { return j.ttr }

// newJob makes a record and stores the body. It returns 0 when memory for
// either cannot be had; nothing is left behind then.
func (c *Core) newJob(op *Op) (uint32, *job) {
	i, j := c.jobs.Alloc()
	if i == 0 {
		return 0, nil
	}
	if op.Large != nil {
		j.size = uint32(op.Large.Len())
		j.flags |= flagLarge
		j.body = c.storeLarge(op.Large)
	} else {
		j.size = uint32(len(op.Body))
		ref, ok := c.bodies.Put(op.Body)
		if !ok {
			c.jobs.Free(i)
			return 0, nil
		}
		j.body = ref
	}
	j.id = op.ID
	c.lastID = max(c.lastID, op.ID)
	c.ids.insert(c.jobs, j.id, i)
	return i, j
}

// freeJob forgets a job that is in no container any more.
func (c *Core) freeJob(i uint32, j *job) {
	j.mustBe(nowhere)
	if j.isSubmitted() {
		c.freeSubmission(j)
	}
	if !c.ids.remove(c.jobs, j.id) {
		panic(fmt.Sprintf("core: job %d, record %d, is not in the table of ids", j.id, i))
	}
	if j.flags&flagLarge != 0 {
		c.freeLargeBody(j.body)
	} else {
		c.bodies.Free(j.body, int(j.size))
	}
	c.jobs.Free(i)
}

// mustBe panics unless the job is where its caller supposes it.
func (j *job) mustBe(s State) {
	if j.state != s {
		j.isElsewhere(s)
	}
}

//go:noinline
func (j *job) isElsewhere(s State) {
	panic(fmt.Sprintf("core: job %d of tube %d, client %d: %s, not %s", j.id, j.tube, j.client, j.state, s))
}

// The functions enter… and leave… move a job into its container and out of it, and keep
// every counter; nothing else touches a job's state. Between a leave and the next enter
// the job is nowhere: an enter of a job that is somewhere panics, and so does a leave of
// one that is somewhere else.

// enterReady makes a job ready in the place that its priority and id give it.
func (c *Core) enterReady(t *tube, i uint32, j *job) { c.enterReadyAt(t, i, j, j.id, 0) }

// enterReadyAt makes a job ready behind the job with id behind, and behind those
// that were put there with a lower turn; see heapEntry.
func (c *Core) enterReadyAt(t *tube, i uint32, j *job, behind JobID, turn uint32) {
	j.mustBe(nowhere)
	j.state = Ready
	j.deadline = 0
	j.prev = turn
	t.ready.push(c.jobs, heapEntry{a: uint64(behind), b: j.pri, job: i})
	c.counts.Ready++
	switch {
	case j.pri < urgentBelow:
		t.urgent++
		c.counts.Urgent++
	case j.pri >= lowFrom:
		t.low++
	}
	c.refresh(t)
}

// leaveReady takes a ready job out. The tube's mirror is the caller's to publish.
func (c *Core) leaveReady(t *tube, j *job) {
	j.mustBe(Ready)
	t.ready.remove(c.jobs, int(j.pos))
	j.state = nowhere
	j.prev = 0
	c.counts.Ready--
	switch {
	case j.pri < urgentBelow:
		t.urgent--
		c.counts.Urgent--
	case j.pri >= lowFrom:
		t.low--
	}
	c.refresh(t)
}

// enterDelayed delays a job until a moment.
func (c *Core) enterDelayed(t *tube, i uint32, j *job, until Time) {
	j.mustBe(nowhere)
	j.state = Delayed
	j.deadline = until
	t.delay.push(c.jobs, heapEntry{a: uint64(until), job: i})
	c.counts.Delayed++
	switch {
	case j.pri < urgentBelow:
		t.urgentDelayed++
	case j.pri >= lowFrom:
		t.low++
	}
	c.timers.want(&t.timer, until)
}

// leaveDelayed takes a delayed job out. The tube's timer stays as it is: it will find
// nothing to do, and move on.
func (c *Core) leaveDelayed(t *tube, j *job) {
	j.mustBe(Delayed)
	t.delay.remove(c.jobs, int(j.pos))
	j.state = nowhere
	c.counts.Delayed--
	switch {
	case j.pri < urgentBelow:
		t.urgentDelayed--
	case j.pri >= lowFrom:
		t.low--
	}
}

// enterReserved gives a job to cl.
func (c *Core) enterReserved(t *tube, i uint32, j *job, cl *client) {
	j.mustBe(nowhere)
	j.state = Reserved
	j.client = cl.id
	j.deadline = c.deadlineOf(j, t, cl)
	j.reserves++
	cl.held.pushBack(c.jobs, i)
	cl.due.push(c.jobs, heapEntry{a: uint64(j.deadline), job: i})
	t.reserved++
	c.counts.Reserved++
	c.timers.want(&cl.timer, c.dueAt(&cl.timer))
}

// leaveReserved takes a job from the client that has reserved it.
func (c *Core) leaveReserved(t *tube, i uint32, j *job) {
	j.mustBe(Reserved)
	cl := c.clientAt(j.client)
	cl.held.remove(c.jobs, i)
	cl.due.remove(c.jobs, int(j.pos))
	j.state = nowhere
	j.client = 0
	t.reserved--
	c.counts.Reserved--
}

// enterBuried buries a job, behind those that are buried already.
func (c *Core) enterBuried(t *tube, i uint32, j *job) {
	j.mustBe(nowhere)
	j.state = Buried
	// No two at the same moment: a replay sorts by it.
	c.buriedAt = max(c.now, c.buriedAt+1)
	j.deadline = c.buriedAt
	j.buries++
	t.buried.pushBack(c.jobs, i)
	c.counts.Buried++
}

// leaveBuried takes a buried job out.
func (c *Core) leaveBuried(t *tube, i uint32, j *job) {
	j.mustBe(Buried)
	t.buried.remove(c.jobs, i)
	j.state = nowhere
	c.counts.Buried--
}

// leave takes a job out of wherever it is.
func (c *Core) leave(t *tube, i uint32, j *job) {
	switch j.state {
	case Ready:
		c.leaveReady(t, j)
		c.publish(t)
	case Delayed:
		c.leaveDelayed(t, j)
	case Reserved:
		c.leaveReserved(t, i, j)
	case Buried:
		c.leaveBuried(t, i, j)
	default:
		j.isElsewhere(Ready)
	}
}

// jobList is a list of jobs by slab index, linked through the records.
type jobList struct {
	head, tail uint32
	n          int
}

// pushBack adds job i, which is in no list.
func (l *jobList) pushBack(jobs *slab.Pool[job], i uint32) {
	j := jobs.At(i)
	j.prev, j.next = l.tail, 0
	if l.tail != 0 {
		jobs.At(l.tail).next = i
	} else {
		l.head = i
	}
	l.tail = i
	l.n++
}

// remove takes out job i, which is in l. It panics when it can see that it is not: its
// links are those of another list's only job, or of none.
func (l *jobList) remove(jobs *slab.Pool[job], i uint32) {
	j := jobs.At(i)
	if j.prev == 0 && l.head != i || j.next == 0 && l.tail != i {
		l.misses(i, j)
	}
	if j.prev != 0 {
		jobs.At(j.prev).next = j.next
	} else {
		l.head = j.next
	}
	if j.next != 0 {
		jobs.At(j.next).prev = j.prev
	} else {
		l.tail = j.prev
	}
	j.prev, j.next = 0, 0
	l.n--
}

//go:noinline
func (l *jobList) misses(i uint32, j *job) {
	panic(fmt.Sprintf("core: job %d, record %d between %d and %d, is not in the list from %d to %d of %d jobs",
		j.id, i, j.prev, j.next, l.head, l.tail, l.n))
}

// list checks the links of l and calls visit for each job.
func (k *checker) list(where string, l *jobList, visit func(uint32)) {
	n, prev := 0, uint32(0)
	for i := l.head; i != 0; {
		if _, known := k.at[i]; !known || n == l.n {
			k.fail("%s: record %d is no job, or the list is longer than %d", where, i, l.n)
			return
		}
		j := k.c.jobs.At(i)
		if j.prev != prev {
			k.fail("%s: job %d has %d before it, not %d", where, j.id, j.prev, prev)
		}
		visit(i)
		n++
		prev, i = i, j.next
	}
	if n != l.n || l.tail != prev {
		k.fail("%s: %d jobs, tail %d; counted %d, %d", where, n, prev, l.n, l.tail)
	}
}

package core

import "polystalk/shard/slab"

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
// (moment.go) when Reserved. Source: beanstalkd doc/protocol.txt.
type job struct {
	id       JobID
	created  Time
	deadline Time
	body     uint32 // slab reference; an index into Core.large for a large one
	size     uint32 // bytes of the body
	pri      uint32
	delay    uint32 // seconds, as last set
	ttr      uint32 // seconds; of a gear job the index of its gearJob instead: see ttrOf
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
	flagLarge jobFlags = 1 << iota // its body is in Core.large
	flagGear                       // it was submitted, not put: there is a gearJob
)

// isGear reports whether the job was submitted by a Gearman client.
func (j *job) isGear() bool { return j.flags&flagGear != 0 }

// jobList is a list of jobs by slab index, linked through the records.
type jobList struct {
	head, tail uint32
	n          int
}

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

func (l *jobList) remove(jobs *slab.Pool[job], i uint32) {
	j := jobs.At(i)
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
		j.body = c.keepLarge(op.Large)
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
	if j.isGear() {
		c.freeGear(j)
	}
	c.ids.remove(c.jobs, j.id)
	if j.flags&flagLarge != 0 {
		if h, ok := c.dir.(BodyHearer); ok {
			h.BodyFreed(c.large[j.body])
		}
		c.large[j.body] = nil
		c.freeLarge = append(c.freeLarge, j.body)
	} else {
		c.bodies.Free(j.body, int(j.size))
	}
	c.jobs.Free(i)
}

// keepLarge stores a body above the slabs' largest class.
func (c *Core) keepLarge(body Large) uint32 {
	if n := len(c.freeLarge); n > 0 {
		i := c.freeLarge[n-1]
		c.freeLarge = c.freeLarge[:n-1]
		c.large[i] = body
		return i
	}
	c.large = append(c.large, body)
	return uint32(len(c.large) - 1)
}

// replyJob fills r with a job; see Reply for how long its body is good.
func (c *Core) replyJob(r *Reply, s Status, j *job) {
	r.Status = s
	r.ID = j.id
	r.Commit = max(r.Commit, j.commit())
	if j.flags&flagLarge != 0 {
		r.Large = c.large[j.body]
	} else {
		r.Body = c.bodies.Get(j.body, int(j.size))
	}
}

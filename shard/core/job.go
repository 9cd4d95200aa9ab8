package core

import (
	"bytes"

	"polystalk/shard/slab"
)

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
	ttr      uint32 // seconds; of a gear job the index of its submission instead: see ttrOf
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

// isSubmitted reports whether the job was submitted by a Gearman client.
func (j *job) isSubmitted() bool { return j.flags&flagSubmitted != 0 }

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
	if j.isSubmitted() {
		c.freeSubmission(j)
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

// largeBodies are the bodies above slab.MaxSize, by job.body. Index 0 may be used.
type largeBodies struct {
	large     []Large
	freeLarge []uint32
}

// storeLarge stores a body above the slabs' largest class.
func (c *Core) storeLarge(body Large) uint32 {
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

// State is the place a job is in.
type State uint8

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

// Large is a body above slab.MaxSize, in pieces, so that a gigabyte is neither
// allocated nor copied in one go. It never changes once it is part of a job:
// replies and slow readers share it, and it outlives the job for them.
type Large [][]byte

// Len is the number of bytes.
func (l Large) Len() (n int) {
	for _, p := range l {
		n += len(p)
	}
	return n
}

// Append appends the bytes to dst.
func (l Large) Append(dst []byte) []byte {
	for _, p := range l {
		dst = append(dst, p...)
	}
	return dst
}

func (c *Core) sameBody(j *job, op *Op) bool {
	if op.Large == nil {
		return j.flags&flagLarge == 0 && bytes.Equal(c.bodies.Get(j.body, int(j.size)), op.Body)
	}
	if j.flags&flagLarge == 0 || int(j.size) != op.Large.Len() {
		return false
	}
	a, b := c.large[j.body], op.Large
	var x, y []byte
	for {
		for ; len(x) == 0 && len(a) > 0; a = a[1:] {
			x = a[0]
		}
		for ; len(y) == 0 && len(b) > 0; b = b[1:] {
			y = b[0]
		}
		n := min(len(x), len(y))
		if n == 0 {
			return true // of the same length: both are at their end
		}
		if !bytes.Equal(x[:n], y[:n]) {
			return false
		}
		x, y = x[n:], y[n:]
	}
}

func (c *Core) bodyOf(j *job) []byte {
	if j.flags&flagLarge != 0 {
		return c.large[j.body].Append(nil)
	}
	return c.bodies.Get(j.body, int(j.size))
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

// bodies checks that each body is stored once and nothing else is.
func (k *checker) bodies() {
	c := k.c
	small := 0
	large := make(map[uint32]bool)
	// In no fixed order, as above.
	for i := range k.at {
		j := c.jobs.At(i)
		switch {
		case j.flags&flagLarge != 0 && (int(j.body) >= len(c.large) || large[j.body]):
			k.fail("job %d: its large body %d is another's or is not there", j.id, j.body)
		case j.flags&flagLarge != 0:
			large[j.body] = true
			if c.large[j.body].Len() != int(j.size) {
				k.fail("job %d: %d bytes stored of %d", j.id, c.large[j.body].Len(), j.size)
			}
		case j.size > 0:
			small++
		}
	}
	if small != c.bodies.Len() {
		k.fail("bodies: %d stored for %d jobs", c.bodies.Len(), small)
	}
	free := make(map[uint32]bool, len(c.freeLarge))
	for _, i := range c.freeLarge {
		if int(i) >= len(c.large) || free[i] || large[i] || c.large[i] != nil {
			k.fail("bodies: large slot %d is free and in use, or free twice", i)
		}
		free[i] = true
	}
	if len(free)+len(large) != len(c.large) {
		k.fail("bodies: %d large slots, %d free, %d in use", len(c.large), len(free), len(large))
	}
}

// The four states of a job.
const (
	Ready State = iota + 1
	Delayed
	Reserved
	Buried
)

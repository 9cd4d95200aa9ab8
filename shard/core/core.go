package core

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"polystalk/shard/slab"
)

// Slots is the number of parts into which tubes are hashed. It must never change: a shard owns a
// set of slots, and the journal names slots, so the number of shards may change at every start.
const Slots = 4096

// SlotOf is the slot of the tube of that name.
func SlotOf(name []byte) uint16 { return uint16(xxhash.Sum64(name) % Slots) }

// A Core is the state machine of one shard: a set of tubes with their jobs, and the clients that
// use them. It is not safe for concurrent use: except for what the package comment names, the
// caller must own the shard. Its size is a multiple of a cache line, so that two cores share none.
type Core struct {
	clock

	jobs   *slab.Pool[Job]
	bodies *slab.Bytes // those that are not Large
	large  *largeBodies
	ids    idTable

	tubeTable
	ready []*tube // tubes with a job that can be reserved
	clientTable
	watches *slab.Pool[watch]
	timers  timers
	readied *ReadyLog

	counts      coreCounts
	sums        *coreSums
	woken       []*Waiter
	dir         Directory
	ended       func(JobID)    // dir's JobFinished; nil: it has none
	submissions *submissions   // nil until an operation names a function
	submitOpts  *SubmitOptions // for submissions; nil: none were set
	lastID      JobID          // the highest id of a job so far
	moving      map[JobID]moving

	recorder
	collection *collection // nil: nothing was ever flushed

	quotas   *quotas
	policing *policing // nil: there never were policies
}

// coreCounts are the counters of Counts that no table of the core has.
type coreCounts struct {
	Urgent, Ready, Reserved, Delayed, Buried uint64
	Total, Timeouts, waiting                 uint64
}

// New makes an empty core. dir may be nil.
func New(dir Directory) *Core {
	c := &Core{
		jobs:    slab.NewPool[Job](),
		bodies:  slab.NewBytes(),
		large:   new(largeBodies),
		readied: new(ReadyLog),
		sums:    new(coreSums),
		quotas:  new(quotas),
		watches: slab.NewPool[watch](),
		dir:     dir,
	}
	c.tubes, c.names = make([]*tube, 1), make(map[string]*tube)
	c.clients = make([]*client, 1)
	c.ids.Init()
	if f, ok := dir.(finisher); ok {
		c.ended = f.JobFinished
	}
	// Nearly every operation writes these slices. Small slices of two cores could share a
	// cache line, so each gets a larger block.
	c.ready = make([]*tube, 0, 16)
	c.timers.heap = make([]timerEntry, 0, 16)
	return c
}

// Close unmaps the core's memory; it must not be used afterwards.
func (c *Core) Close() {
	c.jobs.Close()
	c.bodies.Close()
	c.watches.Close()
	if c.submissions != nil {
		c.submissions.close()
	}
}

// HasWoken reports whether waiters were won since the last TakeWoken.
func (c *Core) HasWoken() bool { return len(c.woken) > 0 }

// TakeWoken appends the waiters that were won since the last call to dst. Their Msg is filled
// and belongs to the caller, which posts it.
func (c *Core) TakeWoken(dst []*Waiter) []*Waiter {
	dst = append(dst, c.woken...)
	clear(c.woken)
	c.woken = c.woken[:0]
	return dst
}

// Apply runs op at now and fills r. Due timers run first, so the operation finds jobs whose
// delay has ended. Apply panics on a wrong handle, which is a bug of the caller, and on any
// sign that the core's state is broken, since every later answer may be wrong.
func (c *Core) Apply(now Time, op *Op, r *Reply) {
	c.advance(now)
	if c.timers.next() <= c.now {
		c.Expire(now)
	}
	*r = Reply{Client: op.Client}
	before := -1
	if c.buf != nil && op.Kind.Records() {
		before = len(c.buf.Data)
	}
	switch op.Kind {
	case OpPut:
		c.applyPut(op, r)
	case OpReserve:
		c.applyReserve(op, r)
	case OpDelete:
		c.applyDelete(op, r)
	case OpRelease:
		c.applyRelease(op, r)
	case OpBury:
		c.applyBury(op, r)
	case OpTouch:
		c.applyTouch(op, r)
	case OpReserveJob:
		c.applyReserveJob(op, r)
	case OpKick:
		c.applyKick(op, r)
	case OpKickJob:
		c.applyKickJob(op, r)
	case OpPeek, OpPeekReady, OpPeekDelayed, OpPeekBuried:
		c.applyPeek(op, r)
	case OpCancel:
		if op.Client != 0 {
			c.unwait(c.clientAt(op.Client))
		}
	case OpJoin, OpUse, OpUnuse, OpWatch, OpMirror, OpIgnore:
		c.applyTube(op, r)
	case OpReturn, OpClose:
		c.applyClose(op, r)
	case OpPause:
		c.applyPause(op, r)
	case OpStatsJob, OpStatsTube, OpStats:
		c.applyStats(op, r)
	default:
		if op.Kind >= operatorKinds {
			c.applyOperator(op, r)
		} else {
			c.applyFunction(op, r)
		}
	}
	if c.policing != nil {
		c.matchFreed()
	}
	if cl := c.clients[r.Client]; cl != nil {
		r.Held = uint32(cl.held.N)
	}
	if before >= 0 {
		c.buf.Pauses = c.pauses // timers end pauses without a record
		if len(c.buf.Data) != before {
			r.Commit = max(r.Commit, c.buf.Commit)
		}
	}
}

// applyFunction runs the operations of op_function.go.
func (c *Core) applyFunction(op *Op, r *Reply) {
	switch op.Kind {
	case opSubmit:
		c.submit(op, r)
	case opGrab:
		c.grab(op, r)
	case opReport:
		c.report(op, r)
	case opRegister:
		c.register(op, r)
	case opUnregister:
		c.unregister(op, r)
	case opCreateFunction:
		c.openFunction(op.Name).function.created = true
	case opDropFunction:
		r.Status = c.drop(op.Name)
	case opLimitFunction:
		if t := c.findTube(op.Name); t != nil && t.function != nil {
			t.function.limits = op.Function.Limits
			c.closeTube(t) // if only its limits kept it
		}
	case opJobStatus:
		i, j, _ := c.find(op.ID)
		if j != nil && !c.sees(op, i, j) {
			j = nil
		}
		c.status(j, op, r)
	case opUniqueStatus:
		c.uniqueStatus(op, r)
	case opCancelJob:
		c.cancel(op, r)
	case opListFunctions:
		c.functions(op.Function, r)
	case opListJobs:
		c.listJobs(op.Function, r)
	default:
		panic(fmt.Sprintf("core: there is no operation %d", op.Kind))
	}
}

// find looks up a job and its tube; zero: there is none.
func (c *Core) find(id JobID) (uint32, *Job, *tube) {
	i, j := c.ids.find(c.jobs, id)
	if i == 0 {
		return 0, nil, nil
	}
	t := c.tubes[j.Tube]
	if t.flushed != nil && t.flushed.has(j) {
		return 0, nil, nil
	}
	return i, j, t
}

// findHeld looks up a job that the op's client has reserved.
func (c *Core) findHeld(op *Op) (uint32, *Job, *tube) {
	i, j, t := c.find(op.ID)
	if i == 0 || j.State != Reserved || j.Client != op.Client || op.Client == 0 {
		return 0, nil, nil
	}
	return i, j, t
}

// Directory is told which tubes appear and disappear, in that order; it serves list-tubes. Both are
// called while the shard is owned: they must not block on anything that waits for a shard.
type Directory interface {
	TubeAdded(name string)
	TubeRemoved(name string)
}

// A bodyHearer is a Directory that is told of large bodies that no job uses any more. It is
// called while the shard is owned, like a Directory.
type bodyHearer interface {
	BodyFreed(Large)
}

// A finisher is a Directory that is told of jobs that end without an OpDelete. It
// is called while the shard is owned, like a Directory.
type finisher interface {
	JobFinished(JobID)
}

// Numbers returns the server's next job id. OpSubmit calls it while the shard is owned, and
// only for a new job, not for a submission that joins one. So the ids of submitted jobs depend
// on the order in which shards ask, which the history of one core does not contain.
type Numbers interface {
	NextID() JobID
}

package core

import (
	"fmt"
	"slices"
	"sync/atomic"

	"polystalk/shard/stats"
)

// A function has the additional fields of a tube that a client has submitted to, worked for or
// created as a function. Such a tube stays until the function is dropped, or has been unused
// for functionRest.
type function struct {
	created  bool               // by OpCreateFunction
	forgetAt Time               // when it is forgotten if it stays unused; see restFunction
	workers  []uint32           // their watches, a ring: a new worker is woken last
	turn     int                // index in workers of the first worker to wake
	sleepers Sleepers           // number of sleeping workers
	limits   [NumClasses]uint32 // as set by OpLimitFunction; zero: none
}

// A functionStatus counts one function's jobs and workers.
type functionStatus struct {
	Name    string
	Waiting [NumClasses]uint64 // ready or delayed
	Running uint64
	Workers uint64
}

// The three classes of a function as priorities of a tube.
const (
	ClassHigh = iota
	ClassNormal
	ClassLow
	NumClasses
)

// lowFrom is the first priority of ClassLow. ClassHigh is every priority below urgentBelow.
const lowFrom = 1 << 31

// ClassLast is the last priority of each class.
var ClassLast = [NumClasses]uint32{urgentBelow - 1, lowFrom - 1, 1<<32 - 1}

// ClassOf is the class of a priority.
func ClassOf(pri uint32) int {
	switch {
	case pri < urgentBelow:
		return ClassHigh
	case pri < lowFrom:
		return ClassNormal
	}
	return ClassLow
}

// functionRest is how long an unused function is kept. gearmand never forgets a function, so
// its status shows all former functions. If clients invent names, that memory never comes back.
const functionRest = 3600 * Second

// restFunction schedules the unused function t to be forgotten after functionRest, unless a
// client has configured it.
func (c *Core) restFunction(t *tube) {
	f := t.function
	if f.created || f.limits != [NumClasses]uint32{} || t.pauseUntil != 0 {
		f.forgetAt = 0
		return
	}
	f.forgetAt = c.now + functionRest
	c.timers.want(&t.timer, f.forgetAt)
}

// resting reports whether t is a function that will be forgotten at forgetAt.
func (t *tube) resting() bool { return t.function != nil && t.function.forgetAt != 0 }

// openFunction finds or makes the function of that name.
func (c *Core) openFunction(name []byte) *tube {
	t := c.openTube(name)
	c.makeFunction(t)
	return t
}

// makeFunction makes t a function, unless it is one.
func (c *Core) makeFunction(t *tube) {
	if t.function == nil {
		c.ensureSubmissions()
		t.function = new(function)
	}
}

// waiting counts the ready and delayed jobs of t by class, put or submitted.
func (t *tube) waiting() (n [NumClasses]uint64) {
	n[ClassHigh] = uint64(t.urgent) + uint64(t.urgentDelayed)
	n[ClassLow] = uint64(t.low) + uint64(t.lowDelayed)
	n[ClassNormal] = uint64(t.ready.N+t.delay.N) - n[ClassHigh] - n[ClassLow]
	return n
}

// add makes the client of watch w a worker, which is woken last.
func (f *function) add(w uint32) {
	if f.turn == 0 {
		f.workers = append(f.workers, w)
		return
	}
	f.workers = slices.Insert(f.workers, f.turn, w)
	f.turn++
}

// remove takes the client of watch w out of the workers.
func (f *function) remove(w uint32) {
	i := slices.Index(f.workers, w)
	if i < 0 {
		panic(fmt.Sprintf("core: watch %d belongs to none of %d workers", w, len(f.workers)))
	}
	f.workers = slices.Delete(f.workers, i, i+1)
	if f.turn > i {
		f.turn--
	}
	if f.turn == len(f.workers) {
		f.turn = 0
	}
}

// wakeSleepers tells sleeping workers of f that a job is ready: all of them, or at most
// SubmitOptions.Wakeup, in turn from f.turn. It reports whether it stopped at that limit,
// so that others may still sleep. Source: gearmand's --worker-wakeup.
func (c *Core) wakeSleepers(f *function) bool {
	if f.sleepers.n.Load() == 0 {
		return false
	}
	n, woken := len(f.workers), 0
	for k := range n {
		at := f.turn + k
		if at >= n {
			at -= n
		}
		m := c.clientOf(f.workers[at]).mail
		if !m.tell() {
			continue
		}
		c.submissions.post(m)
		if woken++; woken == c.submissions.opts.Wakeup {
			f.turn = (at + 1) % n
			return true
		}
	}
	return false
}

// wakeOthers wakes workers of t while jobs are left: only a worker that has left, or is busy now, may
// have been woken for them.
func (c *Core) wakeOthers(t *tube) {
	if c.submissions.opts.Wakeup > 0 && t.readyPos != 0 {
		c.wakeSleepers(t.function)
	}
}

// register makes a client a worker of a function.
func (c *Core) register(op *Op, r *Reply) {
	cl := c.functionClient(op)
	t := c.openFunction(op.Name)
	r.Client = cl.id
	if c.watchAt(cl, t) < 0 {
		if !c.watch(cl, t) {
			r.Status = StatusOutOfMemory
			return
		}
		t.function.add(cl.watches.list[len(cl.watches.list)-1])
		t.function.sleepers.Add(int32(op.N)) // before the next job looks for sleepers
		r.N = 1
	}
	cl.setTimeout(t, op.Function.Timeout)
	op.Function.Sleepers = &t.function.sleepers
	r.Tube, r.Face, r.Mirror = t.id, t.Face, c.mirrorOf(t)
}

// setTimeout makes jobs that cl grabs from t run out after d; zero: never.
func (cl *client) setTimeout(t *tube, d Time) {
	if d == 0 {
		delete(cl.timeouts, t.id)
		return
	}
	if cl.timeouts == nil {
		cl.timeouts = make(map[TubeID]Time)
	}
	cl.timeouts[t.id] = d
}

// grab takes the best job of a function for a worker, with its unique id and reducer; a job
// that was put has none.
func (c *Core) grab(op *Op, r *Reply) {
	cl, t := c.clientAt(op.Client), c.tubeAt(op.Tube)
	switch {
	case t.readyPos == 0:
		r.Status = StatusTimedOut
		return
	case op.Bound.Less(t.best()):
		r.Status = StatusElsewhere
		return
	}
	j := c.reserve(t, cl)
	c.publish(t)
	if t.policy != nil {
		c.wakeOthers(t) // only this worker may know that the tube is no longer held back
	}
	c.replyJob(r, StatusReserved, j)
	op.Function.setUnique(nil)
	op.Function.setReducer(nil)
	if j.isSubmitted() {
		x := c.submissionOf(j)
		op.Function.setUnique(c.submissions.uniqueOf(x))
		op.Function.setReducer(c.submissions.reducerOf(x))
	}
}

// unregister runs an Unregister: the jobs of the function that the client runs lose their
// worker. A visit looks at a bounded number of the client's jobs.
func (c *Core) unregister(op *Op, r *Reply) {
	cl, left := c.clientAt(op.Client), &op.Function.Cursor
	if op.Tube == 0 {
		if !c.ignoreSome(cl, boundedMax) || !c.returnJobs(cl, boundedMax) {
			r.Status = StatusMore
		}
		return
	}
	if *left == 0 {
		c.ignore(cl, c.watchAt(cl, c.tubeAt(op.Tube)))
		*left = uint64(cl.held.N)
	}
	for n := 0; *left > 0 && cl.held.N > 0; n++ {
		if n == boundedMax {
			r.Status = StatusMore
			return
		}
		*left--
		i := cl.held.Head
		j := c.jobs.At(i)
		if j.Tube != op.Tube {
			cl.held.Remove(c.jobs, i, j)
			cl.held.pushBack(c.jobs, i, j) // after one round the old order is restored
			continue
		}
		t := c.tubeAt(op.Tube)
		c.leaveReserved(t, i, j)
		c.count(t, stats.Return)
		c.giveBack(t, i, j, cl)
	}
	*left = 0
}

// drop forgets a function that has neither workers nor jobs.
func (c *Core) drop(name []byte) Status {
	t := c.findTube(name)
	switch {
	case t == nil || t.function == nil:
		return StatusNotFound
	case len(t.function.workers) > 0 || t.jobs > 0:
		return StatusInUse
	}
	t.function = nil
	c.closeTube(t)
	return StatusOK
}

// functions lists the functions, and the tubes with jobs. A visit looks at a bounded number of
// tubes.
func (c *Core) functions(x *FunctionOp, r *Reply) {
	for n, most := 0, x.visitMost(boundedMax); x.Cursor < uint64(len(c.tubes)); x.Cursor++ {
		if n == most {
			r.Status = StatusMore
			return
		}
		n++
		if t := c.tubes[x.Cursor]; t != nil && (t.function != nil || t.jobs > 0) && (x.Visible == nil || x.Visible(t.name)) {
			x.Functions = append(x.Functions, functionStatus{
				Name: t.name, Waiting: t.waiting(), Running: uint64(t.reserved), Workers: uint64(t.watching),
			})
		}
	}
}

// Sleepers counts the sleeping workers of a function. Sessions update it, so that a new job
// costs only one atomic load while no worker sleeps.
type Sleepers struct {
	n atomic.Int32
}

// Add adds n sleepers; n may be negative.
func (s *Sleepers) Add(n int32) { s.n.Add(n) }

// Count returns the number of sleepers.
func (s *Sleepers) Count() int { return int(s.n.Load()) }

package core

import (
	"slices"

	"polystalk/shard/record"
)

// A tube exists while a client uses or watches it, while it holds jobs, or
// for ever when it is pinned ("default").
type tube struct {
	*Face
	mirrored bool // its mirror is kept, since a router asked for it
	pinned   bool
	kept     bool // until its pause ends: it comes from a journal

	ready, delay jobHeap
	buried       jobList

	pauseUntil Time // zero: not paused
	pauseFor   Time // as asked, for stats-tube

	// readyPos is the tube's index in Core.ready plus one; zero when nothing
	// can be reserved from it (empty or paused).
	readyPos int

	waiters waitQueue

	using, watching uint32
	jobs            int // in whatever state
	urgent          uint64
	urgentDelayed   uint64
	low             uint64 // ready or delayed, of ClassLow
	reserved        uint64
	total           uint64 // put since the process began
	restored        uint64 // … before
	deletes         uint64
	pauses          uint64

	timer timer

	gear *function // what else a function is; nil: none is of this name
}

// urgentBelow is the priority under which a ready job counts as urgent.
const urgentBelow = 1024

func (c *Core) findTube(name []byte) *tube { return c.names[string(name)] }

// openTube finds or makes the tube of that name.
func (c *Core) openTube(name []byte) *tube {
	if t := c.names[string(name)]; t != nil {
		return t
	}
	t := &tube{Face: &Face{name: string(name), slot: SlotOf(name)}}
	t.timer.tube = t
	if n := len(c.freeTubes); n > 0 {
		t.id = c.freeTubes[n-1]
		c.freeTubes = c.freeTubes[:n-1]
		c.tubes[t.id] = t
	} else {
		t.id = TubeID(len(c.tubes))
		c.tubes = append(c.tubes, t)
	}
	c.names[t.name] = t
	c.namesMost = max(c.namesMost, len(c.names))
	if c.dir != nil {
		c.dir.TubeAdded(t.name)
	}
	return t
}

// inUse reports whether t is more than a name.
func (t *tube) inUse() bool { return t.jobs > 0 || t.watching > 0 || t.using > 0 || t.pinned || t.kept }

// closeTube forgets t if nothing needs it any more, a function after a while. A
// forgotten tube forgets its pause and its counters, as in the reference.
func (c *Core) closeTube(t *tube) {
	if t.inUse() {
		return
	}
	if t.gear != nil {
		c.restFunction(t)
		return
	}
	if t.pauseUntil != 0 {
		c.setPause(t, 0, 0)
		c.logPause(t)
	}
	c.timers.stop(&t.timer)
	delete(c.names, t.name)
	c.tubes[t.id] = nil
	c.freeTubes = append(c.freeTubes, t.id)
	c.shrinkTubes()
	if c.dir != nil {
		c.dir.TubeRemoved(t.name)
	}
}

// A list or map that once held many of something is made anew when it holds fewer than a
// part in shrinkPart of that, unless it is small anyway: neither gives memory back by
// itself. The copy is so small a part that nobody waits for it.
const (
	shrinkPart = 16
	shrinkMin  = 1024
)

// shrinkTubes gives back what the names and handles of many tubes have taken.
func (c *Core) shrinkTubes() {
	if c.namesMost < shrinkMin || len(c.names) > c.namesMost/shrinkPart {
		return
	}
	names := make(map[string]*tube, len(c.names))
	last := TubeID(0)
	for name, t := range c.names { // in no order, and none is left behind
		names[name] = t
		last = max(last, t.id)
	}
	c.names, c.namesMost = names, len(names)
	// Handles in use stay as they are.
	c.tubes = slices.Clone(c.tubes[:last+1])
	c.freeTubes = slices.DeleteFunc(c.freeTubes, func(id TubeID) bool { return id > last })
	c.freeTubes = slices.Clone(c.freeTubes)
}

// Pin makes the tube of that name for ever. Call it before any operation.
func (c *Core) Pin(name string) { c.openTube([]byte(name)).pinned = true }

// refresh keeps Core.ready true; every change to t.ready or to its pause ends here.
// The mirror follows with publish: after match, when jobs were made ready.
func (c *Core) refresh(t *tube) {
	can := t.ready.n > 0 && t.pauseUntil == 0
	if can != (t.readyPos != 0) {
		if can {
			c.ready = append(c.ready, t)
			t.readyPos = len(c.ready)
		} else {
			n := len(c.ready) - 1
			last := c.ready[n]
			c.ready[t.readyPos-1] = last
			last.readyPos = t.readyPos
			c.ready[n] = nil
			c.ready = c.ready[:n]
			t.readyPos = 0
		}
	}
}

// publish makes the mirror true, and notes in the log if t has a better job now.
func (c *Core) publish(t *tube) {
	if !t.mirrored {
		return
	}
	k := Key{}
	if t.readyPos != 0 {
		k = t.best()
	}
	was := t.mirror.stored()
	if k == was {
		return
	}
	t.mirror.store(k)
	if k.ID != 0 && (was.ID == 0 || k.Less(was)) {
		c.readied.add(t.Face, k)
	}
}

// best is the key of the first ready job; there must be one.
func (t *tube) best() Key {
	e := t.ready.top()
	return Key{e.b, JobID(e.a)}
}

func (c *Core) mirrorOf(t *tube) *Mirror {
	if !t.mirrored {
		t.mirrored = true
		c.publish(t)
	}
	return &t.mirror
}

// The enter and leave functions move a job between its containers and keep
// every counter; nothing else touches a job's state.

func (c *Core) enterReady(t *tube, i uint32, j *job) { c.enterReadyAt(t, i, j, j.id, 0) }

// enterReadyAt makes a job ready behind the job with id behind, and behind those
// that were put there with a lower turn; see heapEntry.
func (c *Core) enterReadyAt(t *tube, i uint32, j *job, behind JobID, turn uint32) {
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

func (c *Core) leaveReady(t *tube, j *job) {
	t.ready.remove(c.jobs, int(j.pos))
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

func (c *Core) enterDelayed(t *tube, i uint32, j *job, until Time) {
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

func (c *Core) leaveDelayed(t *tube, j *job) {
	t.delay.remove(c.jobs, int(j.pos))
	c.counts.Delayed--
	switch {
	case j.pri < urgentBelow:
		t.urgentDelayed--
	case j.pri >= lowFrom:
		t.low--
	}
}

func (c *Core) enterReserved(t *tube, i uint32, j *job, cl *client) {
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

func (c *Core) leaveReserved(t *tube, i uint32, j *job) {
	cl := c.clients[j.client]
	cl.held.remove(c.jobs, i)
	cl.due.remove(c.jobs, int(j.pos))
	j.client = 0
	t.reserved--
	c.counts.Reserved--
}

func (c *Core) enterBuried(t *tube, i uint32, j *job) {
	j.state = Buried
	// No two at the same moment: a replay sorts by it.
	c.buriedAt = max(c.now, c.buriedAt+1)
	j.deadline = c.buriedAt
	j.buries++
	t.buried.pushBack(c.jobs, i)
	c.counts.Buried++
}

func (c *Core) leaveBuried(t *tube, i uint32) {
	t.buried.remove(c.jobs, i)
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
		c.leaveBuried(t, i)
	}
}

func (c *Core) pause(t *tube, d Time) {
	t.pauses++
	if d == 0 {
		// The reference pauses for a nanosecond, which only un-pauses.
		c.unpause(t)
		c.logPause(t)
		c.closeTube(t) // if only its pause kept it
		return
	}
	c.setPause(t, c.now+d, d)
	c.logPause(t)
	c.refresh(t)
	c.publish(t)
	c.timers.want(&t.timer, t.pauseUntil)
	c.closeTube(t) // a function does not rest meanwhile
}

// setPause pauses t for so long until a moment, or no longer: zero, zero.
func (c *Core) setPause(t *tube, until, length Time) {
	if (until == 0) != (t.pauseUntil == 0) {
		n := record.PauseSize(len(t.name))
		if until == 0 {
			n = -n
		}
		c.pauses += n
	}
	t.pauseUntil, t.pauseFor = until, length
}

func (c *Core) unpause(t *tube) {
	c.setPause(t, 0, 0)
	t.kept = false
	c.refresh(t)
	c.match(t)
	if t.gear != nil && t.readyPos != 0 {
		for n := 1; n < t.ready.n && c.rouse(t.gear); n++ { // as if each job came now
		}
	}
}

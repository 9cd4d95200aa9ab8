package core

import (
	"fmt"
	"slices"

	"polystalk/shard/record"
	"polystalk/shard/stats"
)

// A tube exists while a client uses or watches it, while it has jobs, or
// for ever when it is pinned ("default").
//
// What every job that passes through touches comes first, so that it is in few cache lines.
type tube struct {
	*Face
	ready     Heap
	readyList List // the same jobs in the order in which they became so
	waiters   waitQueue

	// readyPos is the tube's index in Core.ready plus one; zero when nothing
	// can be reserved from it (empty or paused).
	readyPos uint32

	mirrored   bool // its mirror is kept true, since a router asked for it
	pinned     bool
	pauseKeeps bool // it exists until its pause ends: that comes from a journal

	pauseUntil Time        // zero: not paused
	flow       *stats.Flow // nil: see flowOf
	function   *function   // nil: nobody has named it as a function
	flushed    *flushed    // nil: none of its jobs

	jobs     int    // in whatever state
	bytes    uint64 // of their bodies
	reserved uint32 // jobs
	arrived  int32  // jobs that a replay has restored or a move has brought, less those that a move took away
	tubeTotals
	tubeClasses

	delay             Heap
	delayList, buried List // as readyList

	using, watching uint32 // clients
	timer           timer
	pauseFor        Time // as asked, for stats-tube
}

// tubeClasses are how many jobs of a tube are of a class, but for ClassNormal, which has
// what is left.
type tubeClasses struct {
	urgent        uint32 // ready, with a priority below urgentBelow
	urgentDelayed uint32
	low           uint32 // ready, of ClassLow
	lowDelayed    uint32
}

// tubeTotals are what only grows; see Flow for the rest of that.
type tubeTotals struct {
	total   uint64 // put since the process began
	deletes uint64
	pauses  uint64
}

// A tubeTable is a core's tubes, by handle and by name.
type tubeTable struct {
	tubes     []*tube // by TubeID; 0 is nil
	freeTubes []TubeID
	names     map[string]*tube
	namesMost int // how many there were since names was made
}

// urgentBelow is the priority under which a ready job counts as urgent.
const urgentBelow = 1024

// tubeAt is the tube of a handle, which must be in use.
func (c *tubeTable) tubeAt(id TubeID) *tube {
	t := c.tubes[id]
	if t == nil {
		c.noTube(id)
	}
	return t
}

//go:noinline
func (c *tubeTable) noTube(id TubeID) {
	panic(fmt.Sprintf("core: tube %d of %d is closed", id, len(c.tubes)))
}

// findTube is the tube of that name, or nil.
func (c *tubeTable) findTube(name []byte) *tube { return c.names[string(name)] }

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
func (t *tube) inUse() bool {
	return t.jobs > 0 || t.watching > 0 || t.using > 0 || t.pinned || t.pauseKeeps || t.flushed != nil
}

// closeTube forgets t if nothing needs it any more, a function after a while. A
// forgotten tube forgets its pause and its counters, as in the reference.
func (c *Core) closeTube(t *tube) {
	if t.inUse() {
		return
	}
	if t.function != nil {
		c.restFunction(t)
		return
	}
	if t.jobs != 0 || t.ready.N+t.delay.N+int(t.buried.N+t.waiters.n) != 0 || c.tubes[t.id] != t {
		panic(fmt.Sprintf("core: tube %d %q is closed with %d jobs, %d ready, %d delayed, %d buried, %d waiting",
			t.id, t.name, t.jobs, t.ready.N, t.delay.N, t.buried.N, t.waiters.n))
	}
	if t.pauseUntil != 0 {
		c.setPause(t, 0, 0)
		c.recordPause(t)
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
	can := t.ready.N > 0 && t.pauseUntil == 0
	if can != (t.readyPos != 0) {
		if can {
			c.ready = append(c.ready, t)
			t.readyPos = uint32(len(c.ready))
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

// pause keeps reserve from t for d, from now on; zero ends a pause.
func (c *Core) pause(t *tube, d Time) {
	t.pauses++
	if d == 0 {
		// The reference pauses for a nanosecond, which only un-pauses.
		c.unpause(t)
		c.recordPause(t)
		c.closeTube(t) // if only its pause kept it
		return
	}
	c.setPause(t, c.now+d, d)
	c.recordPause(t)
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

// unpause ends the pause of t, and serves waiting clients.
func (c *Core) unpause(t *tube) {
	c.setPause(t, 0, 0)
	t.pauseKeeps = false
	c.refresh(t)
	c.match(t)
	if t.function != nil && t.readyPos != 0 {
		// As if each job came now: match has told of the first.
		for n := 1; n < t.ready.N && c.wakeSleepers(t.function); n++ {
		}
	}
}

// tubes checks the table of tubes, and each of them.
func (k *checker) tubes() {
	c := k.c
	jobs := make(map[TubeID]int)
	bytes := make(map[TubeID]uint64)
	reserved := make(map[TubeID]uint32)
	// In no fixed order: a check only reports.
	for i := range k.at {
		j := c.jobs.At(i)
		if int(j.Tube) < len(c.tubes) && c.tubes[j.Tube] != nil && !c.isFlushed(j) {
			jobs[j.Tube]++
		}
		bytes[j.Tube] += uint64(j.Size)
		if j.State == Reserved {
			reserved[j.Tube]++
		}
		if int(j.Tube) >= len(c.tubes) || c.tubes[j.Tube] == nil {
			k.fail("job %d is in tube %d, which is gone", j.ID, j.Tube)
		}
	}
	named, ready := 0, 0
	for id, t := range c.tubes {
		if t == nil {
			continue
		}
		named++
		if t.id != TubeID(id) || c.names[t.name] != t || t.timer.tube != t || t.timer.client != nil {
			k.fail("tube %d %q: the handle, the name or the timer is not its own", id, t.name)
		}
		if t.bytes != bytes[t.id] {
			k.fail("tube %q: bodies of %d bytes, counted %d", t.name, bytes[t.id], t.bytes)
		}
		if t.jobs != jobs[t.id] || t.reserved != reserved[t.id] {
			k.fail("tube %q: %d jobs, %d reserved; counted %d, %d",
				t.name, jobs[t.id], reserved[t.id], t.jobs, t.reserved)
		}
		if t.jobs != t.ready.N+t.delay.N+int(t.buried.N)+int(t.reserved) || uint64(t.jobs)+t.deletes != t.total+uint64(t.arrived) {
			k.fail("tube %q: the sum of its states is not its %d jobs, or those and its %d deletes not its total of %d and %d",
				t.name, t.jobs, t.deletes, t.total, t.arrived)
		}
		if !t.inUse() && (t.function == nil || t.function.forgetAt == 0 && !t.function.created && t.pauseUntil == 0 && t.function.limits == [NumClasses]uint32{}) {
			k.fail("tube %q: nothing needs it", t.name)
		}
		if (t.pauseUntil == 0) != (t.pauseFor == 0) {
			k.fail("tube %q: paused until %d for %d", t.name, t.pauseUntil, t.pauseFor)
		}
		k.tubeJobs(t)
		k.classes(t)
		if k.readyTube(t) {
			ready++
		}
	}
	if named != len(c.names) {
		k.fail("%d tubes, %d names", named, len(c.names))
	}
	if ready != len(c.ready) {
		k.fail("%d tubes to reserve from, %d listed", ready, len(c.ready))
	}
}

// tubeJobs checks the containers of t, and its counters of what is in them.
func (k *checker) tubeJobs(t *tube) {
	urgent := uint32(0)
	where := fmt.Sprintf("tube %q ready", t.name)
	k.heap(where, &t.ready, func(e entry) {
		j := k.place(e.Job, Ready, where)
		if j == nil {
			return
		}
		if e.B != j.Pri || e.A != uint64(j.ID) && (j.Client == 0 || e.A < uint64(j.ID)) || j.Tube != t.id {
			k.fail("%s: job %d is under a wrong key or in a wrong tube", where, j.ID)
		}
		if j.Pri < urgentBelow {
			urgent++
		}
	})
	if urgent != t.urgent {
		k.fail("tube %q: %d urgent, counted %d", t.name, urgent, t.urgent)
	}
	delayed := fmt.Sprintf("tube %q delayed", t.name)
	k.heap(delayed, &t.delay, func(e entry) {
		j := k.place(e.Job, Delayed, delayed)
		if j != nil && (e.B != 0 || j.Tube != t.id || j.Client != 0) {
			k.fail("%s: job %d is under a wrong key or in a wrong tube", delayed, j.ID)
		}
	})
	k.arrivals(where, &t.readyList, t.ready.N)
	k.arrivals(delayed, &t.delayList, t.delay.N)
	buried := fmt.Sprintf("tube %q buried", t.name)
	last := Time(0)
	k.list(buried, &t.buried, func(i uint32) {
		j := k.place(i, Buried, buried)
		if j != nil && (j.Tube != t.id || j.Since <= last || j.Client != 0) {
			k.fail("%s: job %d is in a wrong tube or out of order", buried, j.ID)
		}
		if j != nil {
			last = j.Since
		}
	})
	k.sums.Ready += uint64(t.ready.N)
	k.sums.Urgent += uint64(t.urgent)
	k.sums.Delayed += uint64(t.delay.N)
	k.sums.Buried += uint64(t.buried.N)
	k.sums.Reserved += uint64(t.reserved)
}

// arrivals checks the list of what was found at a place already, in a heap of n jobs: the
// same jobs, in the order in which they came.
func (k *checker) arrivals(where string, l *List, n int) {
	last := Time(-1 << 63)
	k.list(where, l, func(i uint32) {
		j := k.c.jobs.At(i)
		if k.at[i] != where || j.Since < last {
			k.fail("%s: job %d is listed, and in %q since %d, behind one since %d", where, j.ID, k.at[i], j.Since, last)
		}
		last = j.Since
	})
	if int(l.N) != n {
		k.fail("%s: %d jobs, %d listed", where, n, l.N)
	}
}

// readyTube checks the tube's place in the ready list and its published key.
// It reports whether something can be reserved from t.
func (k *checker) readyTube(t *tube) bool {
	can := t.ready.N > 0 && t.pauseUntil == 0
	listed := t.readyPos > 0 && int(t.readyPos) <= len(k.c.ready) && k.c.ready[t.readyPos-1] == t
	if can != listed || !can && t.readyPos != 0 {
		k.fail("tube %q: to reserve from: %v; listed: %v, at %d", t.name, can, listed, t.readyPos)
	}
	for i := t.waiters.head; can && i != 0; i = k.c.watches.At(i).next {
		if cl := k.c.clientOf(i); cl.waiter.word.Load() != waitWord(cl.seq, waitOpen) {
			continue // over, or not to be served yet
		}
		k.fail("tube %q: it has both a job to give and a client that waits", t.name)
	}
	if t.mirrored {
		want := Key{}
		if can {
			want = t.best()
		}
		if got, ok := t.mirror.Load(); got != want || ok != can {
			k.fail("tube %q: publishes %v, best is %v", t.name, got, want)
		}
	}
	return can
}

package core

import (
	"fmt"
	"slices"

	"polystalk/shard/record"
	"polystalk/shard/stats"
)

// A tube exists while a client uses or watches it, while it has jobs, or for ever if it is
// pinned ("default").
//
// The fields that every job changes come first, so that they are in few cache lines.
type tube struct {
	*Face
	ready     Heap
	readyList List // the ready jobs in the order in which they became ready
	waiters   waitQueue

	// readyPos is the tube's index in Core.ready plus one; zero when no job
	// can be reserved from it (empty or paused).
	readyPos uint32

	mirrored   bool // its mirror is kept up to date, since a router asked for it
	pinned     bool
	pauseKeeps bool // its pause comes from a journal: the tube exists until it ends

	pauseUntil Time        // zero: not paused
	policy     *tubePolicy // nil: it has none
	flow       *stats.Flow // nil: see flowOf
	function   *function   // nil: the tube is no function
	flushed    *flushed    // nil: it has no flushed jobs

	bytes    uint64 // of the bodies of all jobs
	jobs     int32  // in any state
	pauseFor uint32 // seconds, as asked, for stats-tube
	reserved uint32 // jobs
	arrived  int32  // jobs that a replay has restored or a move has brought, less those that a move took away
	tubeTotals
	tubeClasses

	delay             Heap
	delayList, buried List // in the order in which jobs entered them

	tubeUsers
	timer timer
}

// tubeUsers counts the clients that use a tube, or watch it.
type tubeUsers struct{ using, watching uint32 }

// tubeClasses counts a tube's jobs by class. All other jobs are of ClassNormal.
type tubeClasses struct {
	urgent        uint32 // ready, with a priority below urgentBelow
	urgentDelayed uint32
	low           uint32 // ready, of ClassLow
	lowDelayed    uint32
}

// tubeTotals are counters that only grow; stats.Flow has the others.
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
	namesMost int // the largest len(names) since the map was made
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
	if x := c.policing; x != nil && x.set != nil {
		c.applyPolicy(t)
	}
	if c.dir != nil {
		c.dir.TubeAdded(t.name)
		c.classify(t)
	}
	return t
}

// inUse reports whether anything but a function needs t.
func (t *tube) inUse() bool {
	return t.jobs > 0 || t.watching > 0 || t.using > 0 || t.pinned || t.pauseKeeps || t.flushed != nil ||
		t.policy != nil && t.policy.spent
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

// Slices and maps never give memory back. So one that had at least shrinkMin elements is copied
// when it has fewer than 1/shrinkPart of them. The copy is small, so it delays no client.
const (
	shrinkPart = 16
	shrinkMin  = 1024
)

// shrinkTubes gives back the memory of the names and handles of former tubes.
func (c *Core) shrinkTubes() {
	if c.namesMost < shrinkMin || len(c.names) > c.namesMost/shrinkPart {
		return
	}
	names := make(map[string]*tube, len(c.names))
	last := TubeID(0)
	for name, t := range c.names { // the order does not matter
		names[name] = t
		last = max(last, t.id)
	}
	c.names, c.namesMost = names, len(names)
	// Handles in use do not change.
	c.tubes = slices.Clone(c.tubes[:last+1])
	c.freeTubes = slices.DeleteFunc(c.freeTubes, func(id TubeID) bool { return id > last })
	c.freeTubes = slices.Clone(c.freeTubes)
}

// Pin makes the tube of that name, and keeps it for ever. Call it before any operation.
func (c *Core) Pin(name string) { c.openTube([]byte(name)).pinned = true }

// refresh updates Core.ready. The caller must call it after every change to t.ready or to the
// tube's pause or policy, and then publish, which updates the mirror. If jobs became ready, match comes
// before publish.
func (c *Core) refresh(t *tube) {
	can := t.ready.N > 0 && t.pauseUntil == 0 && (t.policy == nil || t.held() == NotHeld)
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

// pause stops reserves from t for d; zero ends a pause.
func (c *Core) pause(t *tube, d Time) {
	t.pauses++
	if d == 0 {
		// The reference pauses for a nanosecond, which only un-pauses.
		c.unpause(t)
		c.recordPause(t)
		c.closeTube(t) // if only its pause kept it
		return
	}
	c.setPause(t, c.now+d, uint32(d/Second))
	c.recordPause(t)
	c.refresh(t)
	c.publish(t)
	c.timers.want(&t.timer, t.pauseUntil)
	c.closeTube(t) // a function does not rest meanwhile
}

// setPause pauses t until a moment; seconds is the length that was asked for. Zero ends a pause.
func (c *Core) setPause(t *tube, until Time, seconds uint32) {
	if (until == 0) != (t.pauseUntil == 0) {
		n := record.PauseSize(len(t.name))
		if until == 0 {
			n = -n
		}
		c.pauses += n
	}
	t.pauseUntil, t.pauseFor = until, seconds
}

// unpause ends the pause of t, and serves waiting clients.
func (c *Core) unpause(t *tube) {
	c.setPause(t, 0, 0)
	t.pauseKeeps = false
	c.refresh(t)
	c.matchAll(t)
}

// matchAll is match for a tube that has been held back: it wakes sleepers as if each job came now.
func (c *Core) matchAll(t *tube) {
	c.match(t)
	if t.function != nil && t.readyPos != 0 {
		for n := 1; n < t.ready.N && c.wakeSleepers(t.function); n++ {
		}
	}
}

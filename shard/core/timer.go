package core

import (
	"fmt"

	"polystalk/shard/stats"
)

// Second is one second of Time; the wire speaks seconds, the core nanoseconds.
const Second Time = 1e9

// Never is later than every deadline.
const Never Time = 1<<63 - 1

// The core's time never steps back. It is the time of the owner's Batch, which has three
// values of the same moment:
//
//	Now    advances also while the machine is suspended. Delays and pauses end by it.
//	Slept  the time that the machine was suspended, a part of Now. Times to run and
//	       waits end by Now minus Slept, the time awake: while the server cannot hear
//	       workers, their time does not run.
//	Ahead  the time of day minus Now. It may jump at any moment, since clocks are set.
//
// A journal stores the time of day: a record of a deadline is translated by the Ahead of the
// moment at which it is made, and translated back by the Ahead of the moment at which it is
// read. So a deadline follows Now while the server runs, and the time of day across a restart.

// DayOf is the time of day at the moment t.
func DayOf(t, ahead Time) Time {
	switch d := t + ahead; {
	case ahead > 0 && d < t:
		return Never
	default:
		return d
	}
}

// A clock is a core's time.
type clock struct {
	now       Time
	slept     Time // how much of now the machine was suspended
	delayedAt Time // when a delay was last set; see delayUntil
	buriedAt  Time // when a job was last buried; see enterBuried

	// replayed is when a replay ended, which differs between processes; zero: there was none.
	replayed Time

	// buriedAhead is added to the moment of a burial in records; see buriedByNow.
	buriedAhead Time
}

// Slept sets the total time that the machine has been suspended before the next operation.
func (c *Core) Slept(total Time) { c.slept = max(c.slept, total) }

// SleptFor returns the total that Slept has set.
func (c *Core) SleptFor() Time { return c.slept }

// awake is the core's time without the time that the machine was suspended.
func (c *Core) awake() Time { return c.now - c.slept }

// whenAwake is the moment at which the time awake is t, if the machine is not suspended until then.
func (c *Core) whenAwake(t Time) Time {
	if t >= Never-c.slept {
		return Never
	}
	return t + c.slept
}

// advance moves the core's time to now, but never back.
func (c *Core) advance(now Time) { c.now = max(c.now, now) }

// delayUntil returns the end of a delay of d seconds that begins now. It advances the time so
// that no two delays begin at the same moment: of two jobs with the same delay, the job that
// was put first becomes ready first, whatever their ids.
func (c *Core) delayUntil(d uint32) Time {
	if c.now <= c.delayedAt {
		c.now = c.delayedAt + 1
	}
	c.delayedAt = c.now
	return c.now + Time(d)*Second
}

// A timer wakes a tube (a delayed job is due, a pause ends) or a client (a reservation runs
// out, the safety margin or the end of a wait arrives). at may be too early: it is moved later
// only when the timer fires, so the common case, a deadline that moves later, costs nothing.
type timer struct {
	at     Time
	pos    int // index in the heap plus one; zero: not in it
	tube   *tube
	client *client
}

// dueAt returns the moment at which t must really fire.
func (c *Core) dueAt(t *timer) Time {
	if t.tube != nil {
		return c.tubeDue(t.tube)
	}
	return c.whenAwake(t.client.nextAt())
}

// rank orders timers of the same moment. Tubes come first, so a job with a finished delay
// serves a client before the client's wait ends. Then handles decide, so the order does not
// depend on the heap's shape.
func (t *timer) rank() uint64 {
	switch {
	case t.tube != nil:
		return uint64(t.tube.id)
	case t.client != nil:
		return 1<<32 | uint64(t.client.id)
	}
	return 0
}

// timers is a binary heap of timers by (at, rank). Usually it has a few thousand entries, one
// for each tube or client with a pending event.
type timers struct {
	heap []timerEntry
}

// A timerEntry has a copy of the timer's moment, so that the heap is sorted without reading the
// timers.
type timerEntry struct {
	at Time
	t  *timer
}

// before reports whether e fires before f.
func (e timerEntry) before(f timerEntry) bool {
	return e.at < f.at || e.at == f.at && e.t.rank() < f.t.rank()
}

// next is the earliest moment, Never when there is none.
func (h *timers) next() Time {
	if len(h.heap) == 0 {
		return Never
	}
	return h.heap[0].at
}

// want makes t fire at or before at.
func (h *timers) want(t *timer, at Time) {
	switch {
	case at == Never:
	case t.pos == 0:
		t.at = at
		h.heap = append(h.heap, timerEntry{})
		h.up(len(h.heap)-1, timerEntry{at, t})
	case at < t.at:
		t.at = at
		h.up(t.pos-1, timerEntry{at, t})
	}
}

// stop takes t out.
func (h *timers) stop(t *timer) {
	if t.pos == 0 {
		return
	}
	i := t.pos - 1
	t.pos = 0
	n := len(h.heap) - 1
	last := h.heap[n]
	h.heap[n] = timerEntry{}
	h.heap = h.heap[:n]
	if cap(h.heap) >= shrinkMin && n < cap(h.heap)/shrinkPart {
		h.heap = append(make([]timerEntry, 0, max(16, 2*n)), h.heap...)
	}
	if i == n {
		return
	}
	h.place(i, last)
}

// move makes t, which is in the heap, fire at at; Never takes it out.
func (h *timers) move(t *timer, at Time) {
	if uint(t.pos-1) >= uint(len(h.heap)) {
		panic(fmt.Sprintf("core: a timer for %d is said to be at %d of %d, and is not", t.at, t.pos-1, len(h.heap)))
	}
	if at == Never {
		h.stop(t)
		return
	}
	t.at = at
	h.place(t.pos-1, timerEntry{at, t})
}

// place puts e at index i, or above or below it in heap order.
func (h *timers) place(i int, e timerEntry) {
	if i > 0 && e.before(h.heap[(i-1)/2]) {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

// up puts e at index i, which is free, or above it.
func (h *timers) up(i int, e timerEntry) {
	for i > 0 {
		p := (i - 1) / 2
		if !e.before(h.heap[p]) {
			break
		}
		h.heap[i] = h.heap[p]
		h.heap[i].t.pos = i + 1
		i = p
	}
	h.heap[i] = e
	e.t.pos = i + 1
}

// down puts e at index i, which is free, or below it.
func (h *timers) down(i int, e timerEntry) {
	for {
		kid := 2*i + 1
		if kid >= len(h.heap) {
			break
		}
		if kid+1 < len(h.heap) && h.heap[kid+1].before(h.heap[kid]) {
			kid++
		}
		if !h.heap[kid].before(e) {
			break
		}
		h.heap[i] = h.heap[kid]
		h.heap[i].t.pos = i + 1
		i = kid
	}
	h.heap[i] = e
	e.t.pos = i + 1
}

// expireMax is how many jobs may change state in one Expire, so that a million jobs that are
// due at once delay no client for long.
const expireMax = 1024

// Next returns when to call Expire next. It may be too early. Never: nothing is pending.
func (c *Core) Next() Time { return c.timers.next() }

// Expire runs the timers that are due at now: delayed jobs become ready, pauses end,
// reservations and waits run out, flushed jobs are collected. It runs them in the order of
// their moments, however late it is called, so a stall changes no outcome: a client with a
// job that became ready before its wait ended gets the job. It does a bounded amount of work:
// when Next is still not after now, call it again.
func (c *Core) Expire(now Time) {
	c.advance(now)
	for left := expireMax; left > 0 && c.timers.next() <= c.now; left-- {
		t := c.timers.heap[0].t
		// A timer that fires too early finds nothing due, and moves to the next moment.
		switch {
		case t.tube != nil:
			left -= c.expireTube(t.tube, t.at, left)
		case t.client != nil:
			left -= c.expireClient(t.client, t.at-c.slept, left)
		default:
			c.collect(t.at)
			continue
		}
		if c.policing != nil {
			c.matchFreed()
		}
		c.timers.move(t, c.dueAt(t))
		if t.tube != nil && !t.tube.resting() {
			c.closeTube(t.tube) // if only its pause kept it
		}
	}
}

// expireTube does what is due in t at the moment at, up to limit jobs.
func (c *Core) expireTube(t *tube, at Time, limit int) (done int) {
	if t.pauseUntil == at {
		c.unpause(t)
	}
	if f := t.function; f != nil && f.forgetAt == at {
		if f.forgetAt = 0; !t.inUse() {
			t.function = nil // Expire closes the tube
		}
	}
	for t.delay.N > 0 && Time(t.delay.top().A) == at && done < limit {
		i := t.delay.top().Job
		j := c.jobs.At(i)
		c.leaveDelayed(t, i, j)
		since := at
		if t.flushed != nil {
			since = max(since, t.flushed.until[Ready]+1)
		}
		if last := t.readyList.Tail; last != 0 {
			since = max(since, c.jobs.At(last).Since)
		}
		c.enterReadyAt(t, i, j, since, j.ID, 0)
		c.match(t)
		done++
	}
	if t.policy != nil {
		done += c.runPolicy(t, at, limit-done)
	}
	return done
}

// tubeDue is the moment of the next timed event of t.
func (c *Core) tubeDue(t *tube) Time {
	at := Never
	if t.delay.N > 0 {
		at = Time(t.delay.top().A)
	}
	if t.pauseUntil != 0 {
		at = min(at, t.pauseUntil)
	}
	if t.resting() {
		at = min(at, t.function.forgetAt)
	}
	if t.policy != nil {
		at = min(at, c.policyDue(t))
	}
	return at
}

// expireClient does what is due for cl at the time awake at, up to limit jobs.
func (c *Core) expireClient(cl *client, at Time, limit int) (done int) {
	// DEADLINE_SOON goes first: a waiting client must get it before its reservation ends.
	// Source: prot.c, conn_timeout.
	if cl.waiting {
		switch {
		case cl.due.N > 0 && Time(cl.due.top().A)-Second <= at:
			c.wake(cl, StatusDeadlineSoon)
		case cl.until <= at:
			c.wake(cl, StatusTimedOut)
		}
	}
	for cl.due.N > 0 && Time(cl.due.top().A) == at && done < limit {
		i := cl.due.top().Job
		j := c.jobs.At(i)
		t := c.tubes[j.Tube]
		c.leaveReserved(t, i, j)
		j.Timeouts++
		c.counts.Timeouts++
		c.count(t, stats.Timeout)
		c.giveBack(t, i, j, cl)
		done++
	}
	return done
}

// nextAt is the moment of the next timed event of cl, in time awake.
func (cl *client) nextAt() Time {
	at := Never
	if cl.due.N > 0 {
		at = Time(cl.due.top().A)
		if cl.waiting {
			at -= Second
		}
	}
	if cl.waiting {
		at = min(at, cl.until)
	}
	return at
}

// deadlineSoon reports whether cl holds a job that runs out within the safety
// margin of one second. Source: protocol document, "reserve".
func (c *Core) deadlineSoon(cl *client) bool {
	return cl.due.N > 0 && c.awake() >= Time(cl.due.top().A)-Second
}

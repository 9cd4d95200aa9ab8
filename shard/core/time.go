package core

// Second is one second of Time; the wire speaks seconds, the core nanoseconds.
const Second Time = 1e9

// Never is later than every deadline.
const Never Time = 1<<63 - 1

// The core's time only goes on. It is that of the owner's Batch, of which three figures
// belong together:
//
//	Now    goes on whatever the machine does. Delays and pauses end by it.
//	Slept  how much of Now the machine was suspended. Times to run and waits end by
//	       Now less Slept, the time awake: while the server could not hear a worker,
//	       no worker's time runs.
//	Ahead  by how much the time of day is ahead of Now. It may be anything from one
//	       moment to the next, since clocks are set.
//
// What a journal keeps across a restart is the time of day: a record of a deadline is
// translated by the Ahead of the moment at which it is made, and translated back by
// that of the moment at which it is read. So lengths of time count while the server
// runs, and the time of day while it does not.

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
}

// Slept tells for how long the machine has been suspended in all, before the moment of
// the next operation.
func (c *Core) Slept(total Time) { c.slept = max(c.slept, total) }

// SleptFor is what Slept was told last.
func (c *Core) SleptFor() Time { return c.slept }

// awake is the core's time without what was slept through.
func (c *Core) awake() Time { return c.now - c.slept }

// whenAwake is the moment at which the time awake is t, if the machine is not suspended
// until then.
func (c *Core) whenAwake(t Time) Time {
	if t >= Never-c.slept {
		return Never
	}
	return t + c.slept
}

// advance moves the core's time on; a clock that steps back stands still.
func (c *Core) advance(now Time) { c.now = max(c.now, now) }

// delayUntil is when a delay of d seconds, set now, ends. Two delays never
// have the same now: of two jobs that one turn puts with the same delay, the
// one that was put first is to come first, whatever their ids.
func (c *Core) delayUntil(d uint32) Time {
	if c.now <= c.delayedAt {
		c.now = c.delayedAt + 1
	}
	c.delayedAt = c.now
	return c.now + Time(d)*Second
}

package core

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

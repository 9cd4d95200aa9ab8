package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/shard/commit"
	"polystalk/shard/slab"
)

// needsSpace reports whether a command is recorded, and so needs space on the disk. Those
// that are not listed need none, or give some back, as delete does: they go on when the
// disk is full.
func needsSpace(k beanstalk.Kind) bool {
	switch k {
	case beanstalk.Put, beanstalk.Release, beanstalk.Bury, beanstalk.Kick, beanstalk.KickJob, beanstalk.PauseTube, beanstalk.ReserveJob:
		return true
	}
	return false
}

// diskRoom says whether the parsed command may be run: one that needs space on the disk waits
// or is refused while there is none, before it changes anything.
func (c *conn) diskRoom() commit.Pressure {
	if !needsSpace(c.cmd.Kind) {
		return commit.Open
	}
	if c.isLargePut() {
		return c.Room(int(c.cmd.Size))
	}
	p := c.Room(0)
	if p == commit.Full && c.cmd.Kind == beanstalk.ReserveJob {
		return commit.Open // it goes on, but is not recorded
	}
	return p
}

// isLargePut reports whether the parsed command is followed by a large body that is to be
// received.
func (c *conn) isLargePut() bool {
	return c.cmd.Kind == beanstalk.Put && c.cmd.Size > slab.MaxSize && !c.isRefusedAnyway()
}

// isRefusedAnyway reports whether the parsed command is a put that is refused whatever room
// there is.
func (c *conn) isRefusedAnyway() bool {
	return c.cmd.Kind == beanstalk.Put && (c.cmd.Size > c.ahead.maxSize || c.cmd.Trailing)
}

// refuseCommand answers a command for which the disk has no space.
func (c *conn) refuseCommand() {
	c.count()
	if c.cmd.Kind != beanstalk.Put {
		c.fail(outOfMemory)
		return
	}
	c.FreeBodyRoom()
	c.skipNumber()
	c.skipPut(outOfMemory)
}

// refuseBody answers a put for whose body, which is being read, there is no room.
func (c *conn) refuseBody() {
	c.Loop().Ended.Finish(c.putID)
	c.putID = 0
	left := c.BodyLeft()
	c.EndBody()
	c.skipPut(outOfMemory)
	c.skip = left
}

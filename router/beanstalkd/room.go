package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/session"
)

// need says what the parsed command takes besides a turn. Commands that are recorded need
// space on the disk. The others need none or give some back, as delete does: they run when
// the disk is full.
func (c *conn) need() session.Need {
	cmd := &c.cmd
	switch cmd.Kind {
	case beanstalk.Put:
		if cmd.Size > c.ahead.maxSize || cmd.Trailing { // it is refused in any case
			return session.Need{Records: true, Optional: true}
		}
		return session.Need{Records: true, Body: int(cmd.Size)}
	case beanstalk.ReserveJob:
		return session.Need{Records: true, Optional: true}
	case beanstalk.Release, beanstalk.Bury, beanstalk.Kick, beanstalk.KickJob, beanstalk.PauseTube:
		return session.Need{Records: true}
	}
	return session.Need{}
}

// refuseCommand answers a command when the disk is full.
func (c *conn) refuseCommand() {
	c.count()
	if c.cmd.Kind != beanstalk.Put {
		c.fail(outOfMemory)
		return
	}
	c.skipNumber()
	c.skipPut(outOfMemory)
}

// refuseBody answers a put in the middle of its body when the disk is full.
func (c *conn) refuseBody() {
	c.Loop().Ended.Finish(c.putID)
	c.putID = 0
	left := c.BodyLeft()
	c.EndBody()
	c.skipPut(outOfMemory)
	c.skip = left
}

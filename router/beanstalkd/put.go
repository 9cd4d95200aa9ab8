package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/session"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

const crlf = "\r\n"

// put takes a put line; rest is what follows it.
func (c *conn) put(rest []byte) (n int) {
	size := int(c.cmd.Size)
	if c.cmd.Size > c.ahead.maxSize {
		c.skipPut(jobTooBig)
		return 0
	}
	if c.cmd.Trailing {
		c.fail(badFormat)
		return 0
	}
	c.AddRole(session.Producer)
	// The reference numbers a job when its line parses, before the body.
	c.putID = c.number(rest)
	c.Host().Map.IDs().Note(c.putID, c.used.Shard)
	if len(rest) >= size+len(crlf) && size <= slab.MaxSize {
		c.enqueue(rest[:size:size], nil, rest[size:size+len(crlf)])
		return size + len(crlf)
	}
	c.parse = readBody
	c.StartBody(size, len(crlf))
	return 0
}

// collectBody takes what belongs to the body being read, and returns how much that was:
// nothing when there is no room for it.
func (c *conn) collectBody(b []byte) (n int) {
	n, v := c.Collect(b, len(c.used.Name), true)
	switch {
	case v == session.Refuse:
		c.refuseBody()
	case v == session.Run && c.BodyLeft() == 0:
		c.enqueue(c.Collected())
	}
	return n
}

// enqueue puts the job that was read, unless its body does not end as it should. A large
// body is in pieces.
func (c *conn) enqueue(body []byte, large core.Large, end []byte) {
	c.parse = parseLine
	switch {
	case string(end) != crlf:
		c.dropPut(expectedCRLF)
		return
	case c.Host().Draining.Load():
		c.dropPut(draining)
		return
	}
	cmd := &c.cmd
	c.Op().Put(c.used.ID, c.putID, cmd.Pri, cmd.Delay, cmd.TTR, body, large)
	c.runOn(c.used.Shard, (*conn).putDone)
}

func (c *conn) putDone(r *core.Reply) {
	id := c.putID
	if r.Status != core.StatusOK {
		c.Host().Complain("out of memory for a job", "conn", &c.Session, "bytes", c.cmd.Size)
		c.dropPut(outOfMemory)
		return
	}
	c.putID = 0
	op := c.Op()
	op.Body, op.Large = nil, nil // nothing here keeps it when the job is deleted
	c.EndBody()
	c.SetOut(beanstalk.AppendInserted(c.Out(), uint64(id)))
}

// dropPut answers a put that made no job.
func (c *conn) dropPut(why failure) {
	c.Loop().Ended.Finish(c.putID)
	c.putID = 0
	op := c.Op()
	op.Body, op.Large = nil, nil
	c.EndBody()
	c.fail(why)
}

// skipPut discards the body of a put that has failed.
func (c *conn) skipPut(why failure) {
	c.skip = int(c.cmd.Size) + len(crlf)
	c.answer = why
	c.parse = skipBody
}

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

package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/session"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

const crlf = "\r\n"

// put handles a put line; rest is the input behind it. It returns how many bytes of rest it used.
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
	// beanstalkd numbers a job when its line is parsed, before the body arrives.
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

// collectBody takes the bytes of the current body from the front of b, and returns their number:
// zero if the log has no room for them.
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

// enqueue runs the put, unless end, the two bytes behind the body, is not \r\n. The body is in
// large if it is in pieces, else in body.
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
	op.Body, op.Large = nil, nil // else op would keep the body of a deleted job
	c.EndBody()
	c.SetOut(beanstalk.AppendInserted(c.Out(), uint64(id)))
}

// dropPut replies to a put that made no job.
func (c *conn) dropPut(why failure) {
	c.Loop().Ended.Finish(c.putID)
	c.putID = 0
	op := c.Op()
	op.Body, op.Large = nil, nil
	c.EndBody()
	c.fail(why)
}

// skipPut discards the body of a refused put, and then sends the error reply.
func (c *conn) skipPut(why failure) {
	c.skip = int(c.cmd.Size) + len(crlf)
	c.answer = why
	c.parse = skipBody
}

// need returns the needs of the parsed command. Recorded commands need space on the disk. The
// others need none or free some, as delete does, so they run when the disk is full.
func (c *conn) need() session.Need {
	cmd := &c.cmd
	switch cmd.Kind {
	case beanstalk.Put:
		if cmd.Size > c.ahead.maxSize || cmd.Trailing { // put refuses it
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

// refuseCommand replies to a command when the disk is full.
func (c *conn) refuseCommand() {
	c.count()
	if c.cmd.Kind != beanstalk.Put {
		c.fail(outOfMemory)
		return
	}
	c.skipNumber()
	c.skipPut(outOfMemory)
}

// refuseBody refuses a put in the middle of its body because the disk is full.
func (c *conn) refuseBody() {
	c.Loop().Ended.Finish(c.putID)
	c.putID = 0
	left := c.BodyLeft()
	c.EndBody()
	c.skipPut(outOfMemory)
	c.skip = left
}

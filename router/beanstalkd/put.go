package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/access"
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
	case c.verbs&access.Put == 0: // since a reload
		c.Deny(access.Put, []byte(c.used.Name))
		c.dropPut(unknownCommand)
		return
	case c.Credential() != nil && c.Credential().IsLimited() && c.Exceeds([]byte(c.used.Name), int(c.cmd.Size)):
		c.dropPut(outOfMemory)
		return
	}
	cmd := &c.cmd
	c.Op().Put(c.used.ID, c.putID, cmd.Pri, cmd.Delay, cmd.TTR, body, large)
	c.runOn(c.used.Shard, (*conn).putDone)
}

func (c *conn) putDone(r *core.Reply) {
	id := c.putID
	if r.Status == core.StatusFull {
		c.dropPut(outOfMemory)
		return
	}
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
		return session.Need{Records: true, Puts: true, Body: int(cmd.Size)}
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

// The counter of ids is the only word of memory that every put writes. So when a client has
// sent several commands at once, the first put takes the ids for all puts among them: the
// loop parses ahead to find them, and then runs the parsed commands.
//
// Ids follow the order in which put lines arrive, because only complete lines get one. A
// command that cannot run in this turn (its shard is busy, a reserve waits) is parsed again in
// a later one. Its id returns to the counter, or, if other sessions have taken ids meanwhile,
// the session keeps the id for the same line. Kept ids are finished without a job if the lines
// never become puts: the client is gone, or the disk is full. Ids have gaps only for that
// reason, and where beanstalkd also numbers a put that it refuses.

// aheadMax is the largest number of commands that are parsed ahead.
const aheadMax = 31

// An ahead has the commands that a loop has parsed from the input that it is processing.
type ahead struct {
	cmds    [aheadMax]parsed
	at, end int        // the range of cmds that has not run yet
	puts    int        // puts in this range; their ids are consecutive
	id      core.JobID // of the first of these puts

	// maxSize is the largest job body in bytes, read once per input: the limit must not
	// change between the check of a put and its reception.
	maxSize uint32
}

type parsed struct {
	cmd beanstalk.Command
	n   int // bytes of its line
}

// An idRun is a run of successive ids.
type idRun struct {
	first core.JobID
	n     int
}

// parseNext is beanstalk.Parse, but uses a command that was parsed ahead if there is one.
func (c *conn) parseNext(b []byte) (n int, err error) {
	a := c.ahead
	if a.at == a.end {
		return beanstalk.Parse(&c.cmd, b)
	}
	p := &a.cmds[a.at]
	a.at++
	c.cmd = p.cmd
	return p.n, nil
}

// number returns the id of the current put; rest is the input behind its line.
func (c *conn) number(rest []byte) (id core.JobID) {
	a := c.ahead
	switch {
	case a.puts > 0:
		id = a.id
		a.id++
		a.puts--
	case c.numbered.n > 0:
		id = c.numbered.first
		c.numbered.first++
		c.numbered.n--
	default:
		if size := int(c.cmd.Size) + 2; a.at == a.end && len(rest) > size && size-2 <= slab.MaxSize {
			a.read(rest[size:])
		}
		c.Loop().Count(session.CountIDAdds, 1)
		id = c.Host().Map.IDs().Take(1 + a.puts)
		a.id = id + 1
	}
	return id
}

// read parses the commands at the front of b, as long as it is certain that all of them will run
// and which bytes are commands.
func (a *ahead) read(b []byte) {
	a.at, a.end = 0, 0
	for a.end < aheadMax {
		p := &a.cmds[a.end]
		n, err := beanstalk.Parse(&p.cmd, b)
		if n == 0 || err != nil || p.cmd.Kind == beanstalk.Quit {
			return
		}
		p.n = n
		if p.cmd.Kind != beanstalk.Put {
			a.end++
			b = b[n:]
			continue
		}
		if p.cmd.Size > a.maxSize || p.cmd.Trailing {
			return
		}
		a.end++
		a.puts++
		if size := int(p.cmd.Size) + 2; len(b)-n <= size || size-2 > slab.MaxSize {
			return
		} else {
			b = b[n+size:]
		}
	}
}

// endAhead drops the commands that were parsed but not run at the end of an input; left is the
// number of unused bytes.
func (c *conn) endAhead(left int) {
	a := c.ahead
	run := idRun{a.id, a.puts}
	a.at, a.end, a.puts = 0, 0, 0
	if run.n > 0 {
		c.Loop().Count(session.CountIDAdds, 1)
		if !c.Host().Map.IDs().GiveBack(run.first, run.n) {
			c.numbered = run
		}
	}
	if left == 0 || c.Closing() {
		c.dropNumbers()
	}
}

// dropNumbers finishes kept ids that no job will get.
func (c *conn) dropNumbers() {
	for ; c.numbered.n > 0; c.numbered.n-- {
		c.Loop().Ended.Finish(c.numbered.first)
		c.numbered.first++
	}
}

// skipNumber finishes the id of the current put, which is refused, if the put has one already.
func (c *conn) skipNumber() {
	if c.ahead.puts > 0 || c.numbered.n > 0 {
		c.Loop().Ended.Finish(c.number(nil))
	}
}

package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/session"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// The counter of ids is the only word of memory that every put writes. So when a client has
// sent several commands at once, the first put takes the ids for all puts among them: the
// loop parses ahead to find them, and then runs the parsed commands.
//
// Ids follow the order in which put lines arrive, because only complete lines get one. A
// command that cannot run in this turn (its shard is busy, a reserve waits) is parsed again in
// a later one. Its id returns to the counter, or, if other sessions have taken ids meanwhile,
// the session keeps the id for the same line. Kept ids are finished without a job if the lines
// never become puts: the client is gone, or the disk is full. Ids have gaps only for that
// reason, and where beanstalkd also numbers a put that it refuses. ahead_test.go of package
// router tests this.

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

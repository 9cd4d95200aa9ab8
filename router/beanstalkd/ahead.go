package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/session"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// The counter of ids is the one word of the server that every put writes. So when a client
// has sent several commands at once, the first put takes the ids of all puts among them: the
// loop parses ahead to find them, and then runs what it has parsed.
//
// Ids stay in the order in which put lines arrive, since only complete lines get one. A
// command that could not run in this turn (its shard is busy, a reserve waits) is parsed
// again in a later one, and its id goes back to the counter, unless other sessions have taken
// ids meanwhile. Then the session keeps the ids for the same lines. It uses them up without a
// job if the lines never become puts: the client has gone, or the disk is full. Only then are
// there gaps, and where beanstalkd numbers a put that it refuses. ahead_test.go of package
// router tests it.

// aheadMax is how many commands are parsed ahead at most.
const aheadMax = 31

// An ahead is what a loop has parsed of the input that it is processing.
type ahead struct {
	cmds    [aheadMax]parsed
	at, end int        // the range of cmds that is not run yet
	puts    int        // puts in it; their ids follow each other
	id      core.JobID // of the first of those puts

	// maxSize is the largest job body in bytes, as set when the input came: a put must not
	// be accepted by one limit and received by another.
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

// parseNext is beanstalk.Parse for what may have been parsed already.
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

// number returns the id of the put at hand; rest follows its line.
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

// read parses the commands at the front of b, while it is certain which bytes are commands
// and that all of them will run.
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

// endAhead ends a turn of the session's input; left bytes were not used.
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

// dropNumbers uses up ids that no job will get.
func (c *conn) dropNumbers() {
	for ; c.numbered.n > 0; c.numbered.n-- {
		c.Loop().Ended.Finish(c.numbered.first)
		c.numbered.first++
	}
}

// skipNumber uses up the id that the refused put at hand may have already.
func (c *conn) skipNumber() {
	if c.ahead.puts > 0 || c.numbered.n > 0 {
		c.Loop().Ended.Finish(c.number(nil))
	}
}

package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A conn is one client: its used tube, its watch list, its place in the protocol. It
// implements session.Protocol.
type conn struct {
	session.Session
	front *Front
	ahead *ahead // the loop's

	cmd    beanstalk.Command // its Name is good while the command is dispatched
	parse  parse
	known  bool    // its first line was checked: it is not another protocol's
	skip   int     // bytes of a body still to be thrown away
	answer failure // to what is being skipped

	putID    core.JobID // of the put under way, until its job is there; zero: none
	numbered idRun      // ids of puts that were not run yet; see ahead.go

	used    ops.Tube
	watched ops.WatchList
	handles ops.Handles
	reserve *ops.Reserve // nil: it has reserved nothing yet
	walk    *walk        // of a command of several visits; nil: there was none

	then func(*conn, *core.Reply) // takes the reply of the visit under way
	next func(*conn)              // goes on after it, or in a later turn
}

// parse says what the next bytes of the input are.
type parse uint8

const (
	parseLine parse = iota // a command
	skipLine               // what is left of a line that is too long
	skipBody               // the body of a put that was refused, and its \r\n
	readBody               // the body of a put
)

// Input implements session.Protocol.
func (c *conn) Input(b []byte) (n int) {
	c.ahead.maxSize = c.front.maxJobSize.Load()
	n = c.runCommands(b)
	if a := c.ahead; a.puts > 0 || a.at < a.end || c.numbered.n > 0 {
		c.endAhead(len(b) - n)
	}
	return n
}

// runCommands runs the commands at the front of b, and returns how many bytes it used. It
// stops at an incomplete command, and where the session does. What it calls only notes an
// operation: all are run here, by Run.
func (c *conn) runCommands(b []byte) (n int) {
	for n < len(b) {
		switch c.parse {
		case parseLine:
			if !c.MayParse() {
				return n
			}
			used, more := c.command(b[n:])
			n += used
			if !more {
				return n
			}
		case skipLine:
			if c.Stopped() {
				return n
			}
			used, done := beanstalk.SkipLine(b[n:])
			n += used
			if done {
				c.parse = parseLine
				c.fail(badFormat)
			} else if used == 0 {
				return n
			}
		case skipBody:
			if c.Stopped() {
				return n
			}
			used := min(c.skip, len(b)-n)
			n += used
			if c.skip -= used; c.skip == 0 {
				c.parse = parseLine
				c.fail(c.answer)
			}
		case readBody:
			if c.Stopped() {
				return n
			}
			n += c.collectBody(b[n:])
		}
		c.Run()
		c.FlushFull()
	}
	return n
}

// command parses and dispatches one command. more is false when b holds only a beginning.
func (c *conn) command(b []byte) (n int, more bool) {
	n, err := c.parseNext(b)
	if !c.known && c.isForeign(b, n, err) {
		return len(b), true
	}
	if n == 0 {
		return 0, false
	}
	if err != nil {
		c.Spend(1)
		c.fault(err)
		return n, true
	}
	switch v, _ := c.Admit(c.need()); v {
	case session.Wait:
		return 0, false
	case session.Refuse:
		c.Spend(1)
		c.refuseCommand()
		return n, true
	}
	c.Spend(1)
	return n + c.dispatch(b[n:]), true
}

// fault answers a line that is none.
func (c *conn) fault(err error) {
	switch err {
	case beanstalk.ErrLineTooLong:
		c.parse = skipLine
	case beanstalk.ErrUnknownCommand:
		c.fail(unknownCommand)
	default:
		if c.cmd.Kind != beanstalk.Unknown {
			c.count() // Parse says when a bad line still counts
		}
		c.fail(badFormat)
	}
}

// isForeign checks the first line of a connection; it has n bytes, or none yet. It reports
// whether the other end speaks HTTP or TLS, as a web page can make any browser do on its
// user's machine: the lines behind it would be commands.
func (c *conn) isForeign(b []byte, n int, err error) bool {
	if n == 0 {
		return session.IsTLS(b) && c.refuseForeign()
	}
	c.known = true
	return err != nil && session.IsForeign(b[:n], err == beanstalk.ErrLineTooLong) && c.refuseForeign()
}

func (c *conn) refuseForeign() bool {
	c.Quit()
	c.Host().CountRejection(session.RejectedForeign)
	c.Host().Complain("closing a connection: its first line is a request of HTTP or TLS", "conn", &c.Session)
	return true
}

// count counts the command at hand.
func (c *conn) count() { c.Count(c.front.base + int(c.cmd.Kind)) }

// Replied implements session.Protocol.
func (c *conn) Replied(r *core.Reply) {
	c.handles.Learn(c.Visited(), len(c.Host().Map.Shards()), r)
	c.then(c, r)
}

// runOn has the operation run on a shard; then gets the reply.
func (c *conn) runOn(shard int, then func(*conn, *core.Reply)) {
	c.then = then
	c.Visit(shard)
}

// visitAgain visits the same shard with the same operation.
func (c *conn) visitAgain() { c.Visit(c.Visited()) }

// goOnLater has next called in a later turn, once none of until stops the session.
func (c *conn) goOnLater(units int, until session.Stops, next func(*conn)) {
	c.next = next
	c.Later(units, until)
}

// Next implements session.Protocol.
func (c *conn) Next() {
	f := c.next
	c.next = nil
	f(c)
}

// Start implements session.Starter: a new client uses and watches the default tube.
func (c *conn) Start() {
	c.Op().Join(defaultName, nil)
	c.runOn(c.Host().Map.OfTube(defaultName), (*conn).joined)
}

var defaultName = []byte(DefaultTube)

func (c *conn) joined(r *core.Reply) {
	if r.Status != core.StatusOK {
		c.Host().Complain("closing a connection: no memory for its watch list", "conn", &c.Session)
		c.Abort()
		return
	}
	c.used = c.Host().Map.TubeOf(r.Face)
	c.watched.Add(r.Face, c.handles.In(c.Visited()))
}

// Close implements session.Protocol.
func (c *conn) Close() {
	if c.reserve != nil {
		// No shard serves a wait any more. A wake-up that is under way finds the session
		// closing, and its job goes back.
		c.reserve.Abandon()
	}
	if c.putID != 0 {
		c.Loop().Ended.Finish(c.putID)
		c.putID = 0
	}
	c.dropNumbers()
	c.leaveOn(c.walking().leave.Start(c.Host().Map, &c.handles, &c.watched, c.used, c.Op()))
}

// left takes the reply of a visit of the leave.
func (c *conn) left(r *core.Reply) { c.leaveOn(c.walk.leave.Next(r, c.Op())) }

func (c *conn) leaveOn(h ops.Hop) {
	c.then = (*conn).left
	switch {
	case h.Shard == ops.None:
		c.Gone()
	case h.Later:
		c.walk.shard = h.Shard
		c.goOnLater(session.PartUnits, 0, (*conn).leaveLater)
	default:
		c.Visit(h.Shard)
	}
}

func (c *conn) leaveLater() { c.Visit(c.walk.shard) }

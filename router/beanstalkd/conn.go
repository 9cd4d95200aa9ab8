package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/access"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A conn is the connection of one client: its used tube, its watch list and the state of the
// protocol. It implements session.Protocol.
type conn struct {
	session.Session
	front *Front
	ahead *ahead // owned by the loop

	cmd    beanstalk.Command // its Name is valid while the command is dispatched
	parse  parse
	known  bool    // the first line was checked: it is not HTTP or TLS
	answer failure // the reply after the skipped body
	rights         // see authorize.go
	skip   int     // bytes of a body that must still be skipped

	putID    core.JobID // of the current put, until its job exists; zero: none
	numbered idRun      // kept ids of puts that have not run yet; see put.go

	used    ops.Tube
	watched ops.WatchList
	handles ops.Handles
	reserve *ops.Reserve // nil: it has never reserved
	walk    *walk        // of a command with several visits; nil: there was none

	then func(*conn, *core.Reply) // takes the reply of the pending visit
	next func(*conn)              // continues after it, or in a later turn
}

// A parse says what the next bytes of the input are.
type parse uint8

const (
	parseLine parse = iota // a command
	skipLine               // the rest of a line that is too long
	skipBody               // the body of a refused put, and its \r\n
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
// ends at an incomplete command, and when the session stops. The functions that it calls only
// note operations: Run runs them, here.
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

// command parses and dispatches one command. more is false if the command is incomplete or must
// wait.
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
	if c.Credential() != nil {
		switch c.authorize() {
		case later:
			return 0, false
		case denied:
			c.Spend(1)
			return n, true
		}
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

// fault replies to an invalid line.
func (c *conn) fault(err error) {
	if c.Unproven() {
		c.fail(unknownCommand)
		c.RefuseUnproven()
		return
	}
	switch err {
	case beanstalk.ErrLineTooLong:
		c.parse = skipLine
	case beanstalk.ErrUnknownCommand:
		c.fail(unknownCommand)
	default:
		if c.cmd.Kind != beanstalk.Unknown {
			c.count() // Parse sets Kind if the line counts as a command
		}
		c.fail(badFormat)
	}
}

// isForeign checks the first line of a connection, of n bytes; n is zero if it is incomplete. It
// reports, and refuses, a client that speaks HTTP or TLS, or a balancer: a web page can make a browser send such
// a line, followed by lines that are commands here.
func (c *conn) isForeign(b []byte, n int, err error) bool {
	if n == 0 {
		return session.IsTLS(b) && c.refuseForeign()
	}
	c.known = true
	return (err != nil || c.cmd.Kind == beanstalk.Auth) && (session.IsForeign(b[:n], err == beanstalk.ErrLineTooLong) || session.IsProxied(b)) && c.refuseForeign()
}

func (c *conn) refuseForeign() bool {
	c.Quit()
	c.Host().CountRejection(session.RejectedForeign)
	c.Host().Complain(session.ForeignComplaint, "conn", &c.Session)
	return true
}

// count counts the current command.
func (c *conn) count() { c.Count(c.front.base + int(c.cmd.Kind)) }

// Replied implements session.Protocol.
func (c *conn) Replied(r *core.Reply) {
	c.handles.Learn(c.Visited(), len(c.Host().Map.Shards()), r)
	c.then(c, r)
}

// runOn makes Run run the operation on a shard; then gets the reply.
func (c *conn) runOn(shard int, then func(*conn, *core.Reply)) {
	c.then = then
	c.Visit(shard)
}

// visitAgain visits the same shard with the same operation.
func (c *conn) visitAgain() { c.Visit(c.Visited()) }

// goOnLater defers the call of next to a later turn, once none of until stops the session.
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
	if c.Credential() != nil {
		c.used.Name, c.nominal = DefaultTube, true // see authorize.go
		c.refresh()
		return
	}
	c.verbs = access.Every
	c.Op().Join(defaultName, nil)
	c.runOn(c.Host().Map.OfTube(defaultName), (*conn).joined)
}

var defaultName = []byte(DefaultTube)

func (c *conn) joined(r *core.Reply) {
	if c.watchDefault(r) {
		c.used = c.Host().Map.TubeOf(r.Face)
	}
}

// watchDefault adds the default tube to the watch list. It closes the connection, and returns false,
// if the shard is out of memory or the right is lost.
func (c *conn) watchDefault(r *core.Reply) bool {
	if r.Status != core.StatusOK {
		c.Host().Complain("closing a connection: no memory for its watch list", "conn", &c.Session)
		c.Abort()
		return false
	}
	return c.addWatched(r.Face)
}

// Close implements session.Protocol.
func (c *conn) Close() {
	if c.reserve != nil {
		// No shard will serve the wait. A wake-up that is on its way finds the session closing,
		// and its job is returned.
		c.reserve.Abandon()
	}
	if c.putID != 0 {
		c.Loop().Ended.Finish(c.putID)
		c.putID = 0
	}
	c.dropNumbers()
	c.leaveOn(c.walking().leave.Start(c.Host().Map, &c.handles, &c.watched, c.used, c.Op()))
}

// left takes the reply of a visit of ops.Leave.
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

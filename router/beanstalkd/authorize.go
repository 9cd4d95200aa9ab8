package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/access"
	"polystalk/router/ops"
	"polystalk/shard/core"
)

// Rights of commands, if the server has an access file. Clients know the replies to refused
// commands since beanstalkd 1.4: a new reply would crash some, and others take it for success.
//
//	command                               needs                      else
//	put                                   put on the used tube       UNKNOWN_COMMAND; the body is discarded
//	use                                   nothing                    without any verb the tube is not opened
//	watch                                 work                       UNKNOWN_COMMAND, closed
//	reserve, reserve-with-timeout         a watched tube             UNKNOWN_COMMAND
//	delete                                a held job, or manage      NOT_FOUND
//	release, bury, touch                  a held job                 NOT_FOUND, as without an access file
//	reserve-job, kick-job                 work, manage               NOT_FOUND
//	peek                                  look, and full bodies      NOT_FOUND
//	peek-ready, peek-delayed, peek-buried the same on the used tube  NOT_FOUND
//	stats-job                             look                       NOT_FOUND
//	stats-tube, pause-tube                look, manage               NOT_FOUND
//	kick                                  manage on the used tube    UNKNOWN_COMMAND
//	list-tubes                            any verb shows a tube      the tube is omitted
//	stats                                 the level read             UNKNOWN_COMMAND
//
// NOT_FOUND is also the reply if there is no such job or tube, so a client does not learn which tubes
// exist. use is never refused: a client that sends use and put at once would put into the tube that
// it used before. A refused watch closes the connection, because go-beanstalk does not read its reply.
//
// A new client uses and watches the default tube. With an access file it does so when its first
// command arrives, because auth may replace its identity, and only as its rights allow. Without any
// verb there the used tube is only a name. Without work the watched default tube is nominal: it is
// counted and listed and can be ignored, and no shard knows it.

// rights are what a conn remembers for authorization.
type rights struct {
	verbs    access.Verbs // on the used tube
	nominal  bool         // the default tube is watched nominally
	unopened bool         // the rights allow to open a tube that is used or watched by name only
	begun    bool         // it has had a command: auth comes too late
}

// An authorization says what to do with the parsed command.
type authorization uint8

const (
	permitted authorization = iota
	denied                  // it has its reply
	later                   // a tube is being opened: the command will be parsed again
)

// needs has the verb that a command needs on the used tube, the tube that it names, or the tube of its
// job. delete needs it only for a job that the client does not hold.
var needs = [beanstalk.NumKinds]access.Verbs{
	beanstalk.Put: access.Put, beanstalk.Kick: access.Manage,
	beanstalk.PeekReady: access.Look, beanstalk.PeekDelayed: access.Look, beanstalk.PeekBuried: access.Look,
	beanstalk.Watch: access.Work, beanstalk.StatsTube: access.Look, beanstalk.PauseTube: access.Manage,
	beanstalk.Reserve: access.Work, beanstalk.ReserveWithTimeout: access.Work, beanstalk.Stats: access.Look,
	beanstalk.ReserveJob: access.Work, beanstalk.KickJob: access.Manage, beanstalk.Peek: access.Look,
	beanstalk.StatsJob: access.Look, beanstalk.Delete: access.Manage,
}

// authorize decides about the parsed command of a client with a credential. Commands on a job are
// decided when its tube is known: see findTube.
func (c *conn) authorize() authorization {
	cmd := &c.cmd
	switch {
	case cmd.Kind == beanstalk.Auth || cmd.Kind == beanstalk.Quit:
		return permitted
	case c.Unproven():
		c.count()
		c.fail(unknownCommand)
		c.RefuseUnproven()
		return denied
	}
	c.begun = true
	if c.unopened && !c.openTubes() {
		return later
	}
	switch need := needs[cmd.Kind]; cmd.Kind {
	case beanstalk.Put, beanstalk.Kick, beanstalk.PeekReady, beanstalk.PeekDelayed, beanstalk.PeekBuried:
		if c.verbs&need == 0 || c.hidesBody() {
			return c.deny(need, []byte(c.used.Name))
		}
	case beanstalk.Watch, beanstalk.StatsTube, beanstalk.PauseTube:
		if c.Credential().Verbs(cmd.Name)&need == 0 {
			return c.deny(need, cmd.Name)
		}
	case beanstalk.Reserve, beanstalk.ReserveWithTimeout:
		if c.watched.Len() == 0 {
			return c.deny(need, defaultName)
		}
	case beanstalk.Stats:
		if c.Credential().Level() < access.ReadLevel {
			return c.deny(need, nil)
		}
	}
	return permitted
}

// hidesBody reports whether the command is a peek of a client that may not see whole bodies. The
// server's --http-bodies is a setting of HTTP only.
func (c *conn) hidesBody() bool {
	switch c.cmd.Kind {
	case beanstalk.Peek, beanstalk.PeekReady, beanstalk.PeekDelayed, beanstalk.PeekBuried:
		return c.Credential().Sees(access.Full) < access.Full
	}
	return false
}

// deny refuses the parsed command.
func (c *conn) deny(verb access.Verbs, tube []byte) authorization {
	cmd := &c.cmd
	if cmd.Kind == beanstalk.Put && cmd.Trailing && cmd.Size <= c.ahead.maxSize {
		return permitted // put refuses it, and no body follows
	}
	c.count()
	c.Deny(verb, tube)
	switch cmd.Kind {
	case beanstalk.Put:
		c.skipNumber()
		c.skipPut(unknownCommand)
	case beanstalk.Watch:
		c.fail(unknownCommand)
		c.Refuse()
	case beanstalk.Reserve, beanstalk.ReserveWithTimeout, beanstalk.Kick, beanstalk.Stats:
		c.fail(unknownCommand)
	default:
		c.fail(notFound)
	}
	return denied
}

// auth gives the client the identity of a token.
func (c *conn) auth() {
	switch {
	case c.Credential() == nil:
		c.fail(unknownCommand)
	case c.begun || !isToken(c.cmd.Name):
		c.fail(badFormat)
	case !c.Authenticate(string(c.cmd.Name)):
		c.fail(unauthorized)
		c.Refuse()
	default:
		c.begun = true
		c.refresh()
		c.Say(beanstalk.MsgAuthenticated)
	}
}

// isToken reports whether b may be a token: one word of printable ASCII.
func isToken(b []byte) bool {
	for _, ch := range b {
		if ch <= ' ' || ch > '~' {
			return false
		}
	}
	return len(b) >= access.TokenMin && len(b) <= access.TokenMax
}

// refresh finds the rights on the used tube and the default tube.
func (c *conn) refresh() {
	may := c.Credential()
	if may == nil {
		return
	}
	c.verbs = may.Verbs([]byte(c.used.Name))
	c.unopened = c.used.ID == 0 && c.verbs != 0 || c.nominal && c.watched.Len() == 0 && may.Verbs(defaultName)&access.Work != 0
}

// openTubes opens the used tube, and watches the default tube if no other is watched. It returns
// false if a shard is busy.
func (c *conn) openTubes() bool {
	c.refresh() // a tube may be watched since a reload has found that none is
	for c.unopened && !c.Stopped() {
		if c.used.ID == 0 && c.verbs != 0 {
			name := []byte(c.used.Name)
			c.Op().Use(name, 0)
			c.runOn(c.Host().Map.OfTube(name), func(c *conn, r *core.Reply) {
				c.used = c.Host().Map.TubeOf(r.Face)
				c.refresh()
			})
		} else {
			c.runOn(c.watched.Watch(c.Host().Map, &c.handles, defaultName, c.Op()), func(c *conn, r *core.Reply) {
				c.watchDefault(r)
				c.refresh()
			})
		}
		c.Run()
	}
	return !c.Stopped()
}

// useNothing makes the client use a tube on which it has no verb: a name, and no tube.
func (c *conn) useNothing() {
	old := c.used
	c.used = ops.Tube{Name: string(c.cmd.Name)}
	c.refresh()
	if old.ID == 0 {
		c.sayUsing()
		return
	}
	c.unuse(old)
}

// findTube finds the tube of the command's job, which never changes. Then the command runs, if the
// client has the right.
func (c *conn) findTube(shard int) {
	c.Op().StatsJob(c.handles.Client(shard), core.JobID(c.cmd.ID), new(core.JobStats))
	c.runOn(shard, (*conn).foundTube)
}

func (c *conn) foundTube(r *core.Reply) {
	op := c.Op()
	tube := []byte(op.JobStats.Tube)
	op.JobStats = nil
	need := needs[c.cmd.Kind]
	switch {
	case r.Status == core.StatusNotFound:
		c.fail(notFound)
	case c.Credential().Verbs(tube)&need == 0 || c.hidesBody():
		c.Deny(need, tube)
		c.fail(notFound)
	default:
		c.onJobIn(c.Visited())
		op.HeldOnly = false
	}
}

// watching returns the length of the watch list that the client sees.
func (c *conn) watching() int {
	if c.nominal {
		return c.watched.Len() + 1
	}
	return c.watched.Len()
}

// Reauthorize implements session.Reauthorizer.
func (c *conn) Reauthorize() bool {
	c.refresh()
	c.Spend(c.watched.Len())
	for i := range c.watched.Len() {
		if c.Credential().Verbs([]byte(c.watched.Face(i).Name()))&access.Work == 0 {
			return false
		}
	}
	return true
}

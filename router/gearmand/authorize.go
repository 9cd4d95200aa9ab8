package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/access"
)

// Rights of commands, if the server has an access file. A function is a tube of the same name.
//
//	command                                needs                       else
//	SUBMIT_…                               put, also on the reducer    ERROR NOT_PERMITTED; the data is discarded
//	CAN_DO, CAN_DO_TIMEOUT                 work                        ERROR NOT_PERMITTED, closed
//	GRAB_…, PRE_SLEEP, WORK_…              registered functions and jobs that the client runs
//	GET_STATUS, GET_STATUS_UNIQUE          look, or to wait for it     as if there were no such job
//	status, prioritystatus                 look                        the function is omitted
//	show jobs, show unique jobs            look                        the job is omitted
//	workers                                look, or the level read     functions and connections are omitted
//	cancel job                             manage                      ERR UNKNOWN_JOB, as if there were no such job
//	maxqueue, create and drop function     manage                      ERR NOT_PERMITTED
//	shutdown                               the level admin             as --gearman-shutdown refuses it
//	all others                             any right
//
// A refused worker is closed: it does not expect a reply to CAN_DO and would sleep forever. Jobs and
// functions are hidden where they are found, in their shard: see core.FunctionOp.Visible. A client
// keeps what it holds: reports about the jobs that it waits for, and the jobs that it runs.
//
// A client presents a token with the option "auth TOKEN", which libgearman sends again when it
// reconnects, or with the line auth. It may do so at any time.

// authorize reports whether the client may use the parsed message. If it may not, authorize replies.
func (c *conn) authorize() bool {
	m := &c.m
	c.hidden = ""
	switch {
	case c.Unproven():
		if c.presentsToken() {
			return true
		}
		c.counted()
		c.refuseUnproven()
		return false
	case m.Type == gearman.CanDo || m.Type == gearman.CanDoTimeout:
		if c.permits(access.Work, m.Args[0]) {
			return true
		}
		c.counted()
		c.fail(gearman.ErrorNotPermitted)
		c.Refuse()
		return false
	case m.Type == gearman.Text:
		switch m.Verb {
		case gearman.MaxQueue, gearman.CreateFunction, gearman.DropFunction:
			if !c.permits(access.Manage, m.Args[0]) {
				c.counted()
				c.refuse(gearman.ErrorNotPermitted, gearman.MsgNotPermitted)
				return false
			}
		}
	case !c.maySubmit():
		c.counted()
		c.fail(gearman.ErrorNotPermitted)
		c.skipNext(m.Size)
		return false
	}
	return true
}

// permits reports whether the client has a verb on a function. A refusal is recorded.
func (c *conn) permits(verb access.Verbs, function []byte) bool {
	if c.Credential().Verbs(function)&verb != 0 {
		return true
	}
	c.Deny(verb, function)
	return false
}

// maySubmit reports whether the client may put jobs into the functions of the message. Other
// messages than submissions need nothing here.
func (c *conn) maySubmit() bool {
	m := &c.m
	if _, _, submits := m.Type.Submits(); !submits || c.Credential() == nil {
		return true
	}
	return c.mayPut(m.Args[0], m.Reducer())
}

// mayPut reports whether the client may put jobs into a function and its reducer, which may be empty.
func (c *conn) mayPut(function, reducer []byte) bool {
	return c.permits(access.Put, function) && (len(reducer) == 0 || c.permits(access.Put, reducer))
}

// isVisible implements core.FunctionOp.Visible for the current command. A shard may call it on
// another loop, while this one waits.
func (c *conn) isVisible(tube string) bool {
	need := c.hides()
	if c.Credential().Verbs([]byte(tube))&need != 0 {
		return true
	}
	c.hidden = tube
	return false
}

// hides returns the verb without which the current command does not find a job.
func (c *conn) hides() access.Verbs {
	if c.m.Verb == gearman.CancelJob {
		return access.Manage
	}
	return access.Look
}

// denyHidden records that the job of the command was hidden from it.
func (c *conn) denyHidden() {
	if c.hidden != "" {
		c.Deny(c.hides(), []byte(c.hidden))
	}
}

// refuse replies to a message of either form, and counts the error.
func (c *conn) refuse(body, line string) {
	if c.m.Type == gearman.Text {
		c.refuseLine(line, gearman.ErrorCode(body))
	} else {
		c.fail(body)
	}
}

// refuseUnproven replies to a client without rights, and closes the connection.
func (c *conn) refuseUnproven() {
	c.refuse(gearman.ErrorNotPermitted, gearman.MsgNotPermitted)
	c.RefuseUnproven()
}

// unprovenMost is how much of a message the server keeps for a client without rights: a packet or a
// line with the longest token fits.
const unprovenMost = 256

// incomplete waits for the rest of a message.
func (c *conn) incomplete(b []byte) (n int, more bool) {
	if !c.Unproven() || len(b) < unprovenMost {
		return 0, false
	}
	c.refuseUnproven()
	return len(b), true
}

// presentsToken reports whether the message does.
func (c *conn) presentsToken() bool {
	if c.m.Type == gearman.OptionReq {
		_, ok := gearman.AuthOption(c.m.Args[0])
		return ok
	}
	return c.m.Type == gearman.Text && c.m.Verb == gearman.Auth
}

// auth gives the client the identity of a token. A worker must keep the right to its functions.
func (c *conn) auth(token []byte) {
	switch {
	case !c.Authenticate(string(token)):
		c.refuse(gearman.ErrorUnauthorized, gearman.MsgUnauthorized)
		c.Refuse()
	case !c.Reauthorize():
		c.refuse(gearman.ErrorNotPermitted, gearman.MsgNotPermitted)
		c.Refuse()
	case c.m.Type == gearman.Text:
		c.Say(gearman.MsgOK)
	default:
		c.SetOut(gearman.AppendReply(c.Out(), gearman.OptionRes, []byte(gearman.OptionAuth)))
	}
}

// Reauthorize implements session.Reauthorizer: a client must not work for a function without the
// right.
func (c *conn) Reauthorize() bool {
	c.Spend(len(c.abilities.List))
	for i := range c.abilities.List {
		if c.Credential().Verbs([]byte(c.abilities.List[i].Name()))&access.Work == 0 {
			return false
		}
	}
	return true
}

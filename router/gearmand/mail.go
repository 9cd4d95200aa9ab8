package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// Woken implements session.Protocol: what has come is mail.
func (c *conn) Woken(*core.Message) {
	relays := c.mail.Take()
	if c.Closing() || c.Broken() {
		return
	}
	switch c.early.waits {
	case allWaits:
		c.keepBack(relays)
	case reportsWait:
		c.sayNoop()
		c.keepBack(relays)
	default:
		c.sayNoop()
		c.relay(relays)
	}
}

// An earlyMail is relays that wait for an answer which comes first, oldest first.
type earlyMail struct {
	waits       mailWait
	first, last *core.Relay
	bytes       int
	relays      int
}

// A mailWait says which mail waits until the command under way is answered.
type mailWait uint8

const (
	noneWaits   mailWait = iota
	reportsWait          // a submission's JOB_CREATED may be under way as well, and comes before reports
	allWaits             // nothing goes into the middle of a list; that a job came stays in the mail
)

// relayBytes is what a relay without its body takes, about.
const relayBytes = 128

// keepBack keeps relays until the answer, and cuts the client off if that are too many.
func (c *conn) keepBack(relays *core.Relay) {
	e := &c.early
	for r := relays; r != nil; r = r.Next {
		if e.last == nil {
			e.first = r
		} else {
			e.last.Next = r
		}
		e.last = r
		e.bytes += relayBytes + len(r.Body) + r.Large.Len()
		e.relays++
		eachPart(r, func(p []byte) { c.front.host.Account.Retain(p, true) })
		c.AddUsage(relayBytes)
	}
	if e.bytes > c.front.cfg.Load().MaxUnread {
		c.cutOff(e.bytes)
	}
}

// takeEarly takes out what was kept back. No mail waits any more.
func (c *conn) takeEarly() (first *core.Relay) {
	first = c.early.first
	c.AddUsage(-relayBytes * c.early.relays)
	for r := first; r != nil; r = r.Next {
		eachPart(r, c.front.host.Account.Release)
	}
	c.early = earlyMail{}
	return first
}

// eachPart calls f with the parts of a relay's body, which no job has.
func eachPart(r *core.Relay, f func([]byte)) {
	f(r.Body)
	for _, p := range r.Large {
		f(p)
	}
}

// mailMayGo is for when a command is answered that mail had to wait for. What was kept back
// is relayed as soon as no shard is owned.
func (c *conn) mailMayGo() {
	c.early.waits = noneWaits
	if c.early.first != nil {
		c.afterwards((*conn).relayEarly)
	}
}

func (c *conn) relayEarly() {
	if !c.Broken() {
		c.relay(c.takeEarly())
	}
}

// sayNoop says NOOP, and ends the sleep, if a shard has told of a job since the connection
// fell asleep.
func (c *conn) sayNoop() {
	if c.mail.Told() {
		c.endSleep()
		c.SetOut(gearman.AppendNoop(c.Out()))
	}
}

// relay says what was reported, or cuts the client off if it reads none. No shard is
// owned.
func (c *conn) relay(r *core.Relay) {
	for ; r != nil; r = r.Next {
		for range r.Copies {
			if unsent := c.Unsent(); unsent > c.front.cfg.Load().MaxUnread {
				c.cutOff(unsent)
				return
			}
			c.relayOne(r)
			c.FlushFull()
		}
	}
}

// cutOff closes the connection, since its client does not read.
func (c *conn) cutOff(unsent int) {
	c.front.host.Complain("closing a connection that does not read what is relayed to it", "conn", &c.Session, "unsent", unsent)
	c.Abort()
}

func (c *conn) relayOne(r *core.Relay) {
	handle := c.handleOf(r.Job)
	if r.Kind.Ends() {
		c.patient.ended()
	}
	t := gearman.WorkData
	switch r.Kind {
	case core.RelayWarning:
		t = gearman.WorkWarning
	case core.RelayStatus:
		t = gearman.WorkStatus
	case core.RelayDone:
		t = gearman.WorkComplete
	case core.RelayException:
		t = gearman.WorkException
	}
	if r.Kind == core.RelayFailed || r.Kind == core.RelayException && !c.exceptions {
		c.SetOut(gearman.AppendWorkFail(c.Out(), handle))
		return
	}
	c.SetOut(gearman.AppendWorkHead(c.Out(), t, handle, len(r.Body)+r.Large.Len()))
	c.writeShared(r.Body, r.Large)
}

// A body below sharedMin bytes is copied for each client that does not take it at once; a
// larger one is kept once for all clients.
const sharedMin = 512

// writeShared sends a body behind the head that was said. The body never changes, no job
// has it, and no shard is owned.
func (c *conn) writeShared(body []byte, large core.Large) {
	if large == nil {
		if len(body) < sharedMin || c.LeavesAtOnce() {
			c.SetOut(append(c.Out(), body...))
			return
		}
		large = core.Large{body}
	}
	account := c.front.host.Account
	for _, p := range large {
		account.Retain(p, true)
	}
	c.SendLarge(large, "")
	c.Run() // which sends it now
	for _, p := range large {
		account.Release(p)
	}
}

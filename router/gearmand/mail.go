package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// Woken implements session.Protocol: mail has arrived.
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

// An earlyMail has relays that wait for the reply to the current command, oldest first.
type earlyMail struct {
	waits       mailWait
	first, last *core.Relay
	bytes       int
	relays      int
}

// A mailWait says which mail waits for the reply to the current command.
type mailWait uint8

const (
	noneWaits   mailWait = iota
	reportsWait          // reports wait for the JOB_CREATED of a submission
	allWaits             // reports and NOOP wait for the end of a list
)

// relayBytes is about the memory of a relay without its body.
const relayBytes = 128

// keepBack keeps relays until the reply, and closes the connection if they are too many.
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

// takeEarly returns the relays that were kept back, and ends their wait.
func (c *conn) takeEarly() (first *core.Relay) {
	first = c.early.first
	c.AddUsage(-relayBytes * c.early.relays)
	for r := first; r != nil; r = r.Next {
		eachPart(r, c.front.host.Account.Release)
	}
	c.early = earlyMail{}
	return first
}

// eachPart calls f with the parts of a relay's body.
func eachPart(r *core.Relay, f func([]byte)) {
	f(r.Body)
	for _, p := range r.Large {
		f(p)
	}
}

// mailMayGo ends the wait of mail after the reply to a command. Relays that were kept back are
// sent as soon as no shard is owned.
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

// sayNoop sends NOOP, and ends the sleep, if a shard has notified the connection of a job since it
// fell asleep.
func (c *conn) sayNoop() {
	if c.mail.Told() {
		c.endSleep()
		c.SetOut(gearman.AppendNoop(c.Out()))
	}
}

// relay sends reports to the client, or closes the connection if the client does not read. No
// shard may be owned.
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

// cutOff closes the connection because its client does not read.
func (c *conn) cutOff(unsent int) {
	c.front.host.Complain("closing a connection: its client does not read the reports about its jobs", "conn", &c.Session, "unsent", unsent)
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

// A body below sharedMin bytes is copied for each client that does not read it at once; a larger
// one is stored once for all clients.
const sharedMin = 512

// writeShared sends a body behind the head in Out. The body must never change, and no job may
// have it. No shard may be owned.
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
	c.Run() // sends it now
	for _, p := range large {
		account.Release(p)
	}
}

// HasMail reports whether a report or a NOOP is on its way to the connection. The simulator
// finds it through an interface.
func (c *conn) HasMail() bool { return c.mail.UnderWay() }

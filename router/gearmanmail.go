package router

import (
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// hearMail takes what has come besides answers.
func (g *gearSession) hearMail() {
	s := g.s
	relays := g.mail.Take()
	if s.phase >= phaseClosing || s.dying {
		return
	}
	switch {
	case s.phase == phaseBusy && g.listing():
		// Not into the middle of the list. That a job came is in the mail.
		g.keepBack(relays)
	case s.phase == phaseBusy && s.step == stepGearSubmit:
		// JOB_CREATED may be among what is under way, and comes first.
		g.hearNoop()
		g.keepBack(relays)
	default:
		g.hearNoop()
		g.relay(relays)
	}
}

// earlyMail is relays that wait for an answer which comes first, oldest first.
type earlyMail struct {
	first, last *core.Relay
	bytes       int
	relays      int
}

// takeEarly takes out what was kept back.
func (g *gearSession) takeEarly() (first *core.Relay) {
	first = g.early.first
	g.s.keep(-relayBytes * g.early.relays)
	for r := first; r != nil; r = r.Next {
		g.s.loop.srv.acct.ReleaseRelay(r)
	}
	g.early = earlyMail{}
	return first
}

// relayBytes is what a relay without its body takes, about.
const relayBytes = 128

func (g *gearSession) keepBack(relays *core.Relay) {
	e := &g.early
	for r := relays; r != nil; r = r.Next {
		if e.last == nil {
			e.first = r
		} else {
			e.last.Next = r
		}
		e.last = r
		e.bytes += relayBytes + len(r.Body) + r.Large.Len()
		e.relays++
		g.s.loop.srv.acct.RetainRelay(r)
		g.s.keep(relayBytes)
	}
	if e.bytes > g.s.loop.srv.cfg.Gearman.MaxUnread {
		g.cutOff(e.bytes)
	}
}

// cutOff closes a connection whose client does not read.
func (g *gearSession) cutOff(unsent int) {
	g.s.loop.srv.complain("closing a connection that does not read what is relayed to it", "conn", g.s, "unsent", unsent)
	g.s.abort()
}

// hearNoop says so if a job came while the connection slept.
func (g *gearSession) hearNoop() {
	if g.mail.Told() {
		g.stir()
		g.s.loop.out = gearman.AppendNoop(g.s.loop.out)
	}
}

// relay writes reports, or cuts the client off if it reads none. No shard is owned.
func (g *gearSession) relay(r *core.Relay) {
	s := g.s
	for ; r != nil; r = r.Next {
		for range r.Copies {
			if unsent := s.conn.Unsent() + s.heldOut; unsent > s.loop.srv.cfg.Gearman.MaxUnread {
				g.cutOff(unsent)
				return
			}
			g.relayOne(r)
			s.loop.flushFull(s)
		}
	}
}

func (g *gearSession) relayOne(r *core.Relay) {
	out := &g.s.loop.out
	h := g.handleOf(r.Job)
	if r.Kind.Ends() {
		g.late.ended()
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
	if r.Kind == core.RelayFailed || r.Kind == core.RelayException && !g.exceptions {
		*out = gearman.AppendWorkFail(*out, h)
		return
	}
	size := len(r.Body)
	if r.Large != nil {
		size = r.Large.Len()
	}
	*out = gearman.AppendWorkHead(*out, t, h, size)
	g.writeShared(r.Body, r.Large)
}

// sharedMin bytes of a body are copied for each client to whom they cannot be sent at
// once; larger ones are kept once for all.
const sharedMin = 512

// writeShared is write for a body that never changes, and that no job has.
func (g *gearSession) writeShared(body []byte, large core.Large) {
	s := g.s
	if large == nil {
		if len(body) < sharedMin || s.conn.Unsent() == 0 && !s.mustHold() {
			s.loop.out = append(s.loop.out, body...)
			return
		}
		large = core.Large{body}
	}
	acct := s.loop.srv.acct
	for _, p := range large {
		acct.Retain(p, true)
	}
	s.large = large
	s.sendLarge()
	for _, p := range large {
		acct.Release(p)
	}
}

// again goes on where a reply has left off, with no shard owned: another was
// quicker with the job to be grabbed, or reports came before an answer that goes first.
func (g *gearSession) again() {
	switch {
	case g.s.dying:
		return // what it grabbed now would be lost at once
	case g.s.step == stepGearGrab:
		g.grabNext()
		return
	}
	g.relay(g.takeEarly())
}

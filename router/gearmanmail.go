package router

import (
	"polystalk/codec/gearman"
	"polystalk/shard"
)

// relayedMax bytes are kept for a client that does not read what its jobs'
// workers say. Then it is cut off; its jobs go on.
const relayedMax = 64 << 20

// hearMail takes what has come besides answers.
func (g *gearSession) hearMail() {
	s := g.s
	relays := g.mail.Take()
	if s.phase >= phaseClosing || s.dying {
		return
	}
	if g.deaf() {
		return
	}
	g.hearNoop()
	if s.phase == phaseBusy && s.step == stepGearSubmit {
		// JOB_CREATED may be among what is under way, and comes first.
		last := &g.early
		for *last != nil {
			last = &(*last).Next
		}
		*last = relays
		return
	}
	g.relay(relays)
}

// deaf cuts the client off if it has left too much unread, and reports whether it
// did.
func (g *gearSession) deaf() bool {
	s := g.s
	if s.conn.Unsent()+s.heldOut <= relayedMax {
		return false
	}
	s.loop.srv.complain("closing a connection that does not read what is relayed to it", "unsent", s.conn.Unsent())
	s.abort()
	return true
}

// hearNoop says so if a job came while the connection slept.
func (g *gearSession) hearNoop() {
	if g.mail.Told() {
		g.awake()
		g.s.loop.out = gearman.AppendNoop(g.s.loop.out)
	}
}

// relay writes reports, as long as the client reads them. No shard is owned.
func (g *gearSession) relay(r *shard.Relay) {
	for ; r != nil; r = r.Next {
		for range r.Copies {
			if g.deaf() {
				return
			}
			g.relayOne(r)
			g.s.loop.flushFull(g.s)
		}
	}
}

func (g *gearSession) relayOne(r *shard.Relay) {
	out := &g.s.loop.out
	h := g.handleOf(r.Job)
	if r.Kind.Ends() {
		g.late.ended()
	}
	t := gearman.WorkData
	switch r.Kind {
	case shard.RelayWarning:
		t = gearman.WorkWarning
	case shard.RelayStatus:
		t = gearman.WorkStatus
	case shard.RelayDone:
		t = gearman.WorkComplete
	case shard.RelayException:
		t = gearman.WorkException
	}
	if r.Kind == shard.RelayFailed || r.Kind == shard.RelayException && !g.exceptions {
		*out = gearman.AppendWorkFail(*out, h)
		return
	}
	size := len(r.Body)
	if r.Large != nil {
		size = r.Large.Len()
	}
	*out = gearman.AppendWorkHead(*out, t, h, size)
	g.write(r.Body, r.Large)
}

// again goes on where a reply has left off, with no shard owned: another was
// quicker with the job to be grabbed, or reports came before their JOB_CREATED.
func (g *gearSession) again() {
	switch {
	case g.s.dying:
		return // what it grabbed now would be lost at once
	case g.s.step == stepGearGrab:
		g.grabNext()
		return
	}
	early := g.early
	g.early = nil
	g.relay(early)
}

package router_test

import (
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router/routertest"
	"polystalk/shard/core"
)

// secondLoop adds a loop to a fixture; the returned function drains it.
func (f *fixture) secondLoop() (l *routertest.Loop, rest func()) {
	asked := false
	run := func() { asked = true }
	l = f.d.NewLoop(run)
	return l, func() {
		for asked {
			asked = false
			l.GoOn()
		}
	}
}

// A connection ends while mail for it is under way, and more mail is posted
// before every shard knows: what other sessions are waiting for is not lost.
func TestMailOfAConnectionThatEnds(t *testing.T) {
	f := newGearFixture(t)
	c, d := f.openGear(), f.openGear()
	l2, rest2 := f.secondLoop()
	w := &testConn{f: f}
	w.s = l2.OpenGearman(w)
	one, two, three := f.tubeIn(0, 0), f.tubeIn(1, 0), f.tubeIn(2, 0)
	c.asks(packet(gearman.SubmitJob, one, "", "x"), answer(gearman.JobCreated, "H:x:1"))
	c.asks(packet(gearman.SubmitJob, two, "", "x"), answer(gearman.JobCreated, "H:x:2"))
	w.asks(packet(gearman.CanDo, one)+packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", one, "x"))
	w.asks(packet(gearman.CanDo, two)+packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:2", two, "x"))

	release := f.own(2)
	d.send(packet(gearman.SubmitJobBG, three, "", "x"))
	release() // the answer for d is under way
	w.send(packet(gearman.WorkData, "H:x:1", "mail for c"))
	release = f.own(1)
	w.send(packet(gearman.WorkData, "H:x:2", "more mail for c"))
	c.s.Abort()
	release()
	rest2()
	f.rest()
	d.hears(answer(gearman.JobCreated, "H:x:3"))
	if !c.s.Gone() {
		t.Fatal("it does not end")
	}
	f.check()
}

// A hoarder is a client that reads nothing.
type hoarder struct {
	testConn
	copied int // bytes of unsent that are not shared
}

func (c *hoarder) Write(p []byte)              { c.unsent += len(p); c.copied += len(p) }
func (c *hoarder) WriteStable(pieces [][]byte) { c.unsent += core.Large(pieces).Len() }

// One report may be due to a client very often: each submission of its counts.
// What is kept for it is bounded all the same, and its job goes on.
func TestCopiesForAClientThatDoesNotRead(t *testing.T) {
	f := newGearFixture(t)
	c, w := &hoarder{}, f.openGear()
	c.f = f
	c.s = f.l.OpenGearman(c)
	c.send(packet(gearman.SubmitJobBG, "f", "u", "x"))
	for range 1000 {
		c.send(packet(gearman.SubmitJob, "f", "u", "x"))
	}
	f.rest()
	w.asks(packet(gearman.CanDo, "f")+packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "x"))
	const size = 1 << 20
	w.asks(packet(gearman.WorkData, "H:x:1", strings.Repeat("d", size)))
	if c.unsent > f.d.Server.Gearman().MaxUnread+2*size || !c.closed || !c.s.Gone() {
		t.Fatalf("%d bytes kept, closed: %v", c.unsent, c.closed)
	}
	w.asks(packet(gearman.WorkComplete, "H:x:1", ""))
	f.check()
}

// A worker's report to many clients that do not read is in memory once for all of them.
func TestWhatManyDoNotReadIsShared(t *testing.T) {
	f := newGearFixture(t)
	w := f.openGear()
	w.asks(packet(gearman.SubmitJobBG, "f", "u", "x"), answer(gearman.JobCreated, "H:x:1"))
	w.asks(packet(gearman.CanDo, "f")+packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "x"))
	var clients [8]hoarder
	for i := range clients {
		c := &clients[i]
		c.f, c.s = f, f.l.OpenGearman(c)
		for range 1000 {
			c.send(packet(gearman.SubmitJob, "f", "u", "x"))
		}
	}
	f.rest()
	const size = 60_000
	for range 2 {
		w.asks(packet(gearman.WorkData, "H:x:1", strings.Repeat("d", size)))
	}
	for i := range clients {
		c := &clients[i]
		if most := 2 * flushAt; c.unsent < 1000*size || c.copied > most {
			t.Errorf("client %d: %d bytes kept, %d of them copied, want at most %d", i, c.unsent, c.copied, most)
		}
	}
	f.check()
}

// A worker that is told of a job, but asks before it hears of it, has its answer:
// a NOOP behind that would have it ask again while it works.
func TestGrabTakesTheNoopBack(t *testing.T) {
	f := newGearFixture(t)
	w := f.openGear()
	l2, rest2 := f.secondLoop()
	c := &testConn{f: f}
	c.s = l2.OpenGearman(c)
	w.asks(packet(gearman.CanDo, "f") + packet(gearman.PreSleep))
	c.send(packet(gearman.SubmitJobBG, "f", "", "x"))
	w.send(packet(gearman.GrabJob))
	rest2()
	f.rest()
	w.hears(answer(gearman.JobAssign, "H:x:1", "f", "x"))
	w.asks(packet(gearman.WorkComplete, "H:x:1", "") + packet(gearman.PreSleep))
	c.send(packet(gearman.SubmitJobBG, "f", "", "x"))
	f.rest()
	w.hears(answer(gearman.Noop))
	f.check()
}

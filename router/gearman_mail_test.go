package router_test

import (
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

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

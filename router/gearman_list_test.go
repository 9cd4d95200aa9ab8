package router_test

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/codec/gearman"
)

// A list that nobody reads is not made.
func TestListsWaitForTheirReader(t *testing.T) {
	for _, command := range []string{"show jobs\n", "show unique jobs\n", "status\n"} {
		f := newGearFixture(t)
		c, a := f.openGear(), f.openGear()
		const jobs = 9000
		for i := range jobs {
			c.send(packet(gearman.SubmitJobBG, fmt.Sprintf("%d%064d", i, i), fmt.Sprint(i), "x"))
		}
		f.rest()
		a.unsent = unsentMax + 1
		a.send(command)
		f.rest()
		if n := strings.Count(a.take(), "\n"); n == 0 || n > jobs/2 {
			t.Fatalf("%q: %d lines for a client that does not read", command, n)
		}
		a.unsent = 0
		a.s.AllSent()
		f.rest()
		if got := a.take(); !strings.HasSuffix(got, "\n.\n") {
			t.Fatalf("%q: it does not go on: %d bytes", command, len(got))
		}
		a.unsent = unsentMax + 1
		a.send(command)
		f.rest()
		a.s.Abort()
		f.check()
		if !a.s.Gone() {
			t.Fatalf("%q: it does not end", command)
		}
	}
}

// What comes besides answers is not put into the middle of a list.
func TestListsAreNotInterrupted(t *testing.T) {
	f := newGearFixture(t)
	c, w := f.openGear(), f.openGear()
	for range 3000 {
		w.send(packet(gearman.SubmitJobBG, "many", "", "x"))
	}
	f.rest()
	w.take()
	c.asks(packet(gearman.SubmitJob, "f", "", "x"), answer(gearman.JobCreated, "H:x:3001"))
	w.asks(packet(gearman.CanDo, "f")+packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:3001", "f", "x"))
	c.asks(packet(gearman.CanDo, "g") + packet(gearman.PreSleep))
	c.send("show jobs\n")
	w.send(packet(gearman.WorkData, "H:x:3001", "1") + packet(gearman.WorkComplete, "H:x:3001", "2") + packet(gearman.SubmitJobBG, "g", "", "x"))
	f.rest()
	after := answer(gearman.Noop) + answer(gearman.WorkData, "H:x:3001", "1") + answer(gearman.WorkComplete, "H:x:3001", "2")
	if got := c.take(); strings.IndexByte(got, 0) != strings.Index(got, "\n.\n")+3 || !strings.HasSuffix(got, after) {
		t.Fatalf("%q …", got[strings.IndexByte(got, 0):][:100])
	}
	f.check()
}

// While a list waits for its reader, what comes besides is bounded.
func TestReportsBehindAListAreBounded(t *testing.T) {
	f := newGearFixture(t)
	c, w := f.openGear(), f.openGear()
	for range 3000 {
		w.send(packet(gearman.SubmitJobBG, "many", "", "x"))
	}
	f.rest()
	w.take()
	c.asks(packet(gearman.SubmitJob, "f", "", "x"), answer(gearman.JobCreated, "H:x:3001"))
	w.asks(packet(gearman.CanDo, "f")+packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:3001", "f", "x"))
	c.unsent = unsentMax + 1
	c.send("show jobs\n")
	data := packet(gearman.WorkData, "H:x:3001", strings.Repeat("d", 1<<20))
	for range f.d.Server.Gearman().MaxUnread>>20 + 1 {
		w.asks(data)
	}
	if !c.s.Gone() {
		t.Error("it is not cut off")
	}
	w.asks(packet(gearman.WorkComplete, "H:x:3001", ""))
	f.check()
}

// What takes long is charged to the turn in which it is done, so that the other
// connections of the loop have theirs.
func TestTurnsAreAccountedFor(t *testing.T) {
	f := newGearFixture(t)
	w := f.openGear()
	const functions = 2000
	for i := range functions {
		w.send(packet(gearman.CanDo, fmt.Sprintf("f%d", i)))
	}
	const clients = 64
	for range clients {
		f.openGear().send(packet(gearman.SubmitJob, "f0", "u", "x"))
	}
	w.send(packet(gearman.GrabJob))
	f.rest()
	const times = 1000
	for _, tt := range []struct {
		c    *testConn
		what string
		cost int
	}{
		{w, packet(gearman.GrabJob), functions / 16},
		{w, packet(gearman.WorkData, "H:x:1", "d"), clients},
	} {
		before := f.later()
		tt.c.send(strings.Repeat(tt.what, times))
		f.rest()
		if n := f.later() - before; n < times*tt.cost/(roundUnits+tt.cost) {
			t.Errorf("%q: put off %d times", tt.what, n)
		}
	}
	f.check()
}

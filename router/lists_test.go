package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router/gearmand"
)

// tubesOf returns the names in a reply to list-tubes or list-tubes-watched.
func tubesOf(t *testing.T, reply string) (names []string) {
	t.Helper()
	var n int
	head, body, ok := strings.Cut(reply, "\r\n")
	if _, err := fmt.Sscanf(head, "OK %d", &n); err != nil || !ok || len(body) != n+2 {
		t.Fatalf("%q begins a reply of %d bytes", head, len(body))
	}
	for line := range strings.Lines(strings.TrimSuffix(body, "\r\n")) {
		if line != "---\n" {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(line, "- "), "\n"))
		}
	}
	return names
}

// TestLongListsComeInParts: between the parts other clients are served. Tubes created or removed
// meanwhile do not change the list, and the length at its beginning is right.
func TestLongListsComeInParts(t *testing.T) {
	f := newGearFixture(t)
	c, other, w := f.open(), f.open(), f.openGear()
	const tubes = 40_000
	want := []string{"default"}
	for at := 1; at < tubes; at += 500 {
		var b strings.Builder
		for i := at; i < min(at+500, tubes); i++ {
			want = append(want, fmt.Sprint("tube-", i))
			fmt.Fprintf(&b, "watch %s\r\n", want[i])
		}
		c.send(b.String())
		f.rest()
	}
	w.asks(packet(gearman.CanDo, "a\nb")+packet(gearman.EchoReq, "x"), answer(gearman.EchoRes, "x"))
	c.take()
	for _, tt := range []struct {
		command string
		want    []string
	}{
		{"list-tubes", append(slices.Clone(want), `"a\nb"`)},
		{"list-tubes-watched", want},
	} {
		c.send(tt.command + "\r\nlist-tube-used\r\n")
		rounds := 0
		for f.asked && rounds < 1000 {
			other.send(fmt.Sprintf("watch new-%d\r\nuse x\r\nuse default\r\n", rounds%3))
			if got := other.take(); strings.Count(got, "\r\n") != 3 {
				t.Fatalf("%s: the other got %q", tt.command, got)
			}
			f.round()
			rounds++
		}
		if rounds < 2 {
			t.Errorf("%s: all in %d rounds", tt.command, rounds)
		}
		reply, ok := strings.CutSuffix(c.take(), "USING default\r\n")
		if !ok {
			t.Fatalf("%s: the next command is not answered last", tt.command)
		}
		if got := tubesOf(t, reply); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d tubes, want %d", tt.command, len(got), len(tt.want))
		}
	}
	// A client that does not read stops the list; a client that leaves ends it.
	c.unsent = unsentMax + 1
	c.send("list-tubes\r\n")
	f.rest()
	if n := c.got.Len(); n > 2*flushAt {
		t.Errorf("%d bytes for a client that does not read", n)
	}
	c.unsent = 0
	c.s.AllSent()
	f.rest()
	if got := tubesOf(t, c.take()); len(got) != tubes+4 {
		t.Errorf("%d tubes for one that reads again", len(got))
	}
	c.send("list-tubes\r\n")
	c.s.Abort()
	f.rest()
	if !c.s.Gone() {
		t.Error("it is not gone")
	}
	f.check()
}

// TestWorkersComesInParts: workers shows every connection that exists all the time once, with its
// functions.
func TestWorkersComesInParts(t *testing.T) {
	f := newGearFixture(t)
	many, gone, few, a := f.openGear(), f.openGear(), f.openGear(), f.openGear()
	const functions = 40_000
	var names []string
	for i := range functions {
		many.send(packet(gearman.CanDo, fmt.Sprint("f", i)))
		names = append(names, fmt.Sprint(" f", i))
	}
	for i := range functions / 16 {
		many.send(packet(gearman.CantDo, fmt.Sprint("f", 16*i)))
		names[16*i] = ""
	}
	slices.Reverse(names)
	line := "1 - - :" + strings.Join(names, "")
	few.send(packet(gearman.CanDo, "g") + packet(gearman.CanDo, "h"))
	f.rest()
	a.send("workers\n" + packet(gearman.EchoReq, "x"))
	rounds := 0
	for ; f.asked; rounds++ {
		if rounds == 1 {
			gone.s.Abort()
			few.send(packet(gearman.CantDo, "h"))
			many.send(packet(gearman.CanDo, "last"))
		}
		f.round()
	}
	if rounds < 2 {
		t.Errorf("all in %d rounds", rounds)
	}
	want := "4 - - :\n3 - - : h g\n2 - - :\n" + line + "\n.\n" + answer(gearman.EchoRes, "x")
	if got := a.take(); got != want {
		t.Errorf("%d bytes, want %d; they begin with %.100q", len(got), len(want), got)
	}
	a.asks("workers\n", "4 - - :\n3 - - : g\n"+strings.Replace(line, ":", ": last", 1)+"\n.\n")
	f.check()
}

// TestListsWaitForTheirReader: a list is not continued while the client does not read.
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

// TestReportsBehindAListAreBounded: while a list waits for its reader, reports behind it are bounded.
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

// TestTurnsAreAccountedFor: expensive commands are charged to their turns, so that the loop's other
// connections have theirs.
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
		{w, packet(gearman.SubmitJobSched, "f1", "", "", "", "29", "2", "3", "x"), gearmand.ScheduleCost}, // a far schedule
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

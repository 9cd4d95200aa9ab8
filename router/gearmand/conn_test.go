package gearmand

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router/session"
)

// A client's job is done by a worker that slept, and both go.
func TestJobIsDone(t *testing.T) {
	f := newGearFixture(t)
	w, c := f.connect(), f.connect()
	large := strings.Repeat("x", 100_000)
	c.asks(packet(gearman.EchoReq, "e")+packet(gearman.EchoReq, large), answer(gearman.EchoRes, "e"), answer(gearman.EchoRes, large))
	w.asks(packet(gearman.CanDo, "f") + packet(gearman.CanDo, "g") + packet(gearman.PreSleep))
	c.asks(packet(gearman.SubmitJob, "f", "u", large), answer(gearman.JobCreated, "H:x:1"))
	w.hears(answer(gearman.Noop))
	w.asks(packet(gearman.GrabJobUniq), answer(gearman.JobAssignUniq, "H:x:1", "f", "u", large))
	w.asks(packet(gearman.GrabJob), answer(gearman.NoJob))
	w.asks(packet(gearman.WorkData, "H:x:1", large) + packet(gearman.WorkComplete, "H:x:1", "done"))
	c.hears(answer(gearman.WorkData, "H:x:1", large), answer(gearman.WorkComplete, "H:x:1", "done"))
	w.asks(packet(gearman.WorkComplete, "H:x:1", "done"), answer(gearman.Error, "JOB_NOT_FOUND", "Job given in work result not found"))
	f.check()
	for _, each := range f.conns {
		each.halfClose()
		f.check()
		if !each.closed || !each.s.IsGone() {
			t.Fatal("it does not end")
		}
	}
}

// A large result comes to a client that is a worker as well, and has just been given a
// large job that it was not told about yet: both arrive whole.
func TestLargeResultLeavesLargeJobAlone(t *testing.T) {
	f := newGearFixture(t)
	both, w := f.connect(), f.connect()
	large := strings.Repeat("x", 100_000)
	w.asks(packet(gearman.CanDo, "f"))
	both.asks(packet(gearman.CanDo, "g")+packet(gearman.SubmitJobBG, "g", "", large), answer(gearman.JobCreated, "H:x:1"))
	both.asks(packet(gearman.SubmitJob, "f", "", "x"), answer(gearman.JobCreated, "H:x:2"))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:2", "f", "x"))
	release := f.own(f.host.Map.OfTube([]byte("g")))
	both.send(packet(gearman.GrabJob))
	release() // the job is on its way
	w.send(packet(gearman.WorkComplete, "H:x:2", large))
	f.rest()
	both.hears(answer(gearman.WorkComplete, "H:x:2", large), answer(gearman.JobAssign, "H:x:1", "g", large))
	f.check()
}

// A worker that sleeps registers at a shard that is busy, and a job comes before it hears
// that it is registered: it is not counted as sleeping there, and it must look itself.
func TestSleeperThatRegistersLooksForJobs(t *testing.T) {
	f := newGearFixture(t)
	w, c := f.connect(), f.connect()
	w.asks(packet(gearman.PreSleep))
	release := f.own(f.host.Map.OfTube([]byte("f")))
	w.send(packet(gearman.CanDo, "f"))
	release() // it is registered, and its reply is on its way
	c.send(packet(gearman.SubmitJobBG, "f", "", "x"))
	f.rest()
	c.hears(answer(gearman.JobCreated, "H:x:1"))
	w.hears(answer(gearman.Noop))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "x"))
	// Of a job that was there before it is not told, whether it sleeps or not.
	c.asks(packet(gearman.SubmitJobBG, "g", "", "x"), answer(gearman.JobCreated, "H:x:2"))
	w.asks(packet(gearman.PreSleep) + packet(gearman.CanDo, "g"))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:2", "g", "x"))
	f.check()
}

// A worker that registers in its sleep and is woken before it hears of that is not counted
// as sleeping any more: a job for the function wakes no worker.
func TestSleeperThatIsWokenWhileItRegisters(t *testing.T) {
	f := newGearFixture(t)
	w, c := f.connect(), f.connect()
	g, h := "g", "h"
	for f.host.Map.OfTube([]byte(g)) == f.host.Map.OfTube([]byte(h)) {
		h += "h"
	}
	w.asks(packet(gearman.CanDo, h) + packet(gearman.PreSleep))
	release := f.own(f.host.Map.OfTube([]byte(g)))
	w.send(packet(gearman.CanDo, g))
	c.send(packet(gearman.SubmitJobBG, h, "", "x"))
	f.rest()
	c.hears(answer(gearman.JobCreated, "H:x:1"))
	w.hears(answer(gearman.Noop))
	release()
	f.rest()
	c.asks(packet(gearman.SubmitJobBG, g, "", "x"), answer(gearman.JobCreated, "H:x:2"))
	w.hears()
	for _, a := range w.p.abilities.list {
		if n := a.sleepers.Count(); n != 0 {
			t.Errorf("%d workers of %q are counted as sleeping", n, a.Name)
		}
	}
	w.asks(packet(gearman.PreSleep), answer(gearman.Noop))
	f.check()
}

// The first line comes from a browser: nothing behind it is done.
func TestForeignFirstLineCloses(t *testing.T) {
	f := newGearFixture(t)
	c := f.connect()
	c.asks("POST / HTTP/1.1\r\nshutdown\nstatus\n")
	if !c.closed || !c.s.IsGone() || f.ends != nil || !strings.Contains(f.log.String(), "its first line is a request of HTTP or TLS") {
		t.Errorf("closed %t, ends %v, the log is %s", c.closed, f.ends, &f.log)
	}
	f.check()
}

// All that a line or a packet can ask of the server at large, once.
func TestAdministration(t *testing.T) {
	f := newGearFixture(t)
	w, c, a := f.connect(), f.connect(), f.connect()
	w.asks(packet(gearman.SetClientID, "w1") + packet(gearman.CanDo, "f"))
	c.asks(packet(gearman.SubmitJob, "f", "u", "x"), answer(gearman.JobCreated, "H:x:1"))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "x"))
	w.asks(packet(gearman.WorkStatus, "H:x:1", "1", "2"))
	c.hears(answer(gearman.WorkStatus, "H:x:1", "1", "2"))
	a.asks(packet(gearman.GetStatus, "H:x:1"), answer(gearman.StatusRes, "H:x:1", "1", "1", "1", "2"))
	a.asks(packet(gearman.GetStatusUnique, "u"), answer(gearman.StatusResUnique, "u", "1", "1", "1", "2", "1"))
	a.asks(packet(gearman.GetStatusUnique, "v"), answer(gearman.StatusResUnique, "v", "0", "0", "0", "0", "0"))
	a.asks("show jobs\nshow unique jobs\nstatus\nworkers\n",
		"H:x:1\t0\t0\t0\n.\n", "u\n.\n", "f\t1\t1\t1\n.\n", "3 - - :\n2 - - :\n1 - w1 : f\n.\n")
	a.asks("version\nverbose\ngetpid\n", "OK 2.0.0\n", "OK INFO\n", fmt.Sprintf("OK %d\n", os.Getpid()))
	a.asks("create function g\r\ndrop function g\r\ndrop function f\r\n", gearman.MsgOK, gearman.MsgOK, gearman.MsgFunctionBusy)
	a.asks("maxqueue f 1\r\n", gearman.MsgOK)
	a.asks(packet(gearman.SubmitJobBG, "f", "v", "x"), answer(gearman.Error, "QUEUE_ERROR", "Job queue is full"))
	a.asks("cancel job H:x:1\r\ncancel job H:x:2\r\n", gearman.MsgOK, gearman.MsgUnknownJob)
	c.hears(answer(gearman.WorkFail, "H:x:1"))
	a.asks(packet(gearman.OptionReq, "exceptions")+packet(gearman.OptionReq, "others"),
		answer(gearman.OptionRes, "exceptions"), answer(gearman.Error, "UNKNOWN_OPTION", "Server does not recognize given option"))
	f.check()
}

// A remote is a client with a known address.
type remote struct {
	testConn
	at net.Addr
}

func (c *remote) Peer() net.Addr { return c.at }

func TestShutdownIsTakenFrom(t *testing.T) {
	here, there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}
	for _, tt := range []struct {
		from  ShutdownFrom
		at    net.Addr
		taken bool
	}{
		{ShutdownLocal, here, true},
		{ShutdownLocal, &net.UnixAddr{Name: "x", Net: "unix"}, true},
		{ShutdownLocal, there, false},
		{ShutdownLocal, nil, false},
		{ShutdownLocal, session.Forwarded{Addr: here}, false}, // of another machine
		{ShutdownLocal, session.Forwarded{Addr: &net.UnixAddr{Name: "x", Net: "unix"}}, false},
		{ShutdownLocal, session.Forwarded{Addr: there}, false},
		{ShutdownLocal, session.Forwarded{}, false},
		{ShutdownAny, session.Forwarded{Addr: here}, true},
		{ShutdownAny, there, true},
		{ShutdownNone, here, false},
	} {
		f := newFixture(t, 1, Config{Shutdown: tt.from})
		c := &remote{at: tt.at}
		f.connectAs(&c.testConn, c)
		c.send("shutdown graceful\nshutdown\n")
		f.rest()
		want := strings.Repeat("ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n", 2)
		var ends []bool
		if tt.taken {
			want, ends = gearman.MsgOK+gearman.MsgOK, []bool{true, false}
		}
		if got := c.take(); got != want || !slices.Equal(f.ends, ends) {
			t.Errorf("%v from %v: answered %q, ends %v", tt.from, tt.at, got, f.ends)
		}
	}
}

// A client that has a handle of one server of a cluster may ask another one about the job.
func TestServersOfAClusterShareHandles(t *testing.T) {
	for _, tt := range []struct {
		given  string
		number uint64
		want   string
	}{
		{"", 0xc1, "H:00000000000000c1"},
		{"", 1<<64 - 1, "H:ffffffffffffffff"},
		{"H:ours", 0xc1, "H:ours"},
	} {
		for _, host := range []string{"a", "b"} {
			cfg := Config{Prefix: tt.given}
			cfg.Fill(host)
			f := newFixture(t, 1, cfg)
			f.front.ForCluster(tt.number)
			c := f.connect()
			c.asks(packet(gearman.SubmitJobBG, "f", "", "x"), answer(gearman.JobCreated, tt.want+":1"))
			if cfg = f.front.Config(); cfg.Validate() != nil {
				t.Errorf("%v", cfg.Validate())
			}
			f.front.Set(cfg) // other settings may be changed from then on
		}
	}
}

// Each command is counted under its name.
func TestKindsAreCounted(t *testing.T) {
	f := newGearFixture(t)
	c := f.connect()
	c.send(packet(gearman.EchoReq, "e") + packet(gearman.SubmitJobBG, "f", "", "x") + packet(gearman.SubmitReduceJobBG, "f", "", "", "", "x") +
		"show unique jobs\nversion\nbogus\n")
	f.rest()
	kinds, sums := f.front.Kinds(), f.host.Sums().Commands
	got := make(map[string]uint64)
	for i, n := range sums {
		if n > 0 {
			got[kinds[i]] = n
		}
	}
	want := "map[gearman-echo-req:1 gearman-show-unique-jobs:1 gearman-submit-job-bg:1 gearman-submit-reduce-job-background:1 gearman-version:1]"
	if s := fmt.Sprint(got); s != want || len(kinds) != len(sums) {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if kinds[0] != "gearman-can-do" || kinds[len(kinds)-1] != "gearman-shutdown-graceful" {
		t.Errorf("the list is %q", kinds)
	}
}

// A parter is a client that can be parted from.
type parter struct {
	testConn
	parted bool
}

func (c *parter) Part() { c.parted = true }

// A client that sends what is no packet is parted from, since more of it may be under way;
// one that has half-closed is not.
func TestWhoIsRefusedIsPartedFrom(t *testing.T) {
	for _, ends := range []bool{false, true} {
		f := newGearFixture(t)
		c := &parter{}
		f.connectAs(&c.testConn, c)
		release := f.own(f.host.Map.OfTube([]byte("f")))
		c.send(packet(gearman.CanDo, "f") + packet(gearman.NumTypes, ""))
		if ends {
			c.halfClose()
		}
		release()
		f.rest()
		if !c.s.IsGone() || c.parted == ends || c.closed != ends {
			t.Errorf("at its end %t: gone %t, parted %t, closed %t", ends, c.s.IsGone(), c.parted, c.closed)
		}
		f.check()
	}
}

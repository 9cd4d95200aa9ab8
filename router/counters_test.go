package router_test

import (
	"maps"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/session"
)

// A counter is one figure about the inside of the server.
type counter struct {
	Name  string
	Value uint64
}

// counters returns the figures of loops, shards and commands under their names. They lag by one
// turn of a loop at most.
func counters(s *router.Server) []counter {
	var most, rounds, left, commands uint64
	shards := s.Host().Map.Shards()
	for _, sh := range shards {
		c := sh.Counters()
		most = max(most, c.Deepest)
		rounds += c.Rounds
		left += c.Left
	}
	n := s.Host().Sums()
	for _, k := range n.Commands {
		commands += k
	}
	list := []counter{{"loops", uint64(len(s.Host().Loops()))}, {"shards", uint64(len(shards))}}
	for t, v := range n.Counters {
		list = append(list, counter{session.Counter(t).String(), v})
	}
	list = append(list, counter{"shard-rounds", rounds}, counter{"inbox-left", left},
		counter{"inbox-most", most}, counter{"commands", commands})
	at := 0
	for _, f := range s.Fronts() {
		for _, name := range f.Kinds() {
			if name != "" {
				list = append(list, counter{name, n.Commands[at]})
			}
			at++
		}
	}
	return list
}

// counters returns the fixture's counters by name.
func (f *fixture) counters() map[string]uint64 {
	f.t.Helper()
	list := counters(f.d.Server)
	m := make(map[string]uint64, len(list))
	for _, c := range list {
		if _, twice := m[c.Name]; twice || c.Name == "" {
			f.t.Fatalf("counter %q twice or without a name", c.Name)
		}
		m[c.Name] = c.Value
	}
	return m
}

func (f *fixture) counts(want map[string]uint64) {
	f.t.Helper()
	got := f.counters()
	for name, n := range want {
		if v, ok := got[name]; !ok || v != n {
			f.t.Errorf("%s is %d (there: %t), want %d", name, v, ok, n)
		}
	}
}

func TestCountersOfFreeShards(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	c := f.open()
	f.counts(map[string]uint64{"loops": 1, "shards": 4, "inputs": 0, "shard-visits": 1})
	c.says("put 0 0 9 1\nx\n", "INSERTED 1\n")
	c.says("reserve\ndelete 1\n", "RESERVED 1 1\nx\nDELETED\n")
	f.counts(map[string]uint64{
		"inputs": 2, "received-bytes": 35, "shard-visits": 4, "shard-busy": 0, "inbox-sent": 0, "inbox-helped": 0, "inbox-most": 0,
		"commands": 3, "cmd-put": 1, "cmd-reserve": 1, "cmd-delete": 1, "cmd-kick": 0, "turns-deferred": 0,
	})
}

// TestCountersOfABusyShard: three operations wait for the shard's owner, which runs them.
func TestCountersOfABusyShard(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1})
	conns := []*testConn{f.open(), f.open(), f.open()}
	release := f.own(0)
	for _, c := range conns {
		c.send("put 0 0 9 1\r\nx\r\n")
	}
	// Each looked twice: before and after it left its message.
	f.counts(map[string]uint64{"shard-busy": 6, "inbox-sent": 3, "inbox-helped": 0, "inbox-most": 0})
	release()
	f.rest()
	for _, c := range conns {
		if got := c.take(); got[:8] != "INSERTED" {
			t.Errorf("got %q", got)
		}
	}
	f.counts(map[string]uint64{"shard-busy": 6, "inbox-sent": 3, "inbox-helped": 0, "inbox-most": 3})
	if f.other.Helped != 3 {
		t.Errorf("the owner ran %d messages of others, want 3", f.other.Helped)
	}
	// The most stays the most.
	release = f.own(0)
	conns[0].send("put 0 0 9 1\r\nx\r\n")
	release()
	f.rest()
	f.counts(map[string]uint64{"inbox-most": 3, "inbox-sent": 4})
}

// TestCountersOfDeferredTurns: more commands than a turn may run.
func TestCountersOfDeferredTurns(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1})
	c := f.open()
	b := make([]byte, 0, 16*roundUnits)
	for range 2*roundUnits + 1 {
		b = append(b, "touch 1\r\n"...)
	}
	c.send(string(b))
	f.rest()
	f.counts(map[string]uint64{"inputs": 1, "turns-deferred": uint64(f.later()), "cmd-touch": 2*roundUnits + 1})
	if f.later() < 2 {
		t.Errorf("%d turns were put off", f.later())
	}
}

// TestCountersOfGearman: a server that speaks only Gearman counts its commands.
func TestCountersOfGearman(t *testing.T) {
	f := newGearFixture(t)
	c := f.openGear()
	c.asks(packet(gearman.SubmitJobBG, "f", "", "x")+packet(gearman.CanDo, "f")+packet(gearman.GrabJob),
		answer(gearman.JobCreated, "H:x:1"), answer(gearman.JobAssign, "H:x:1", "f", "x"))
	c.asks("show jobs\n", "H:x:1\t0\t0\t1\n.\n")
	c.asks("nonsense\n", "ERR UNKNOWN_COMMAND Unknown+server+commandnonsense\r\n")
	f.d.Server.Drain()
	c.asks(packet(gearman.SubmitJobBG, "f", "", "x"), string(gearman.AppendError(nil, gearman.ErrorDraining)))
	f.counts(map[string]uint64{
		"commands": 5, "gearman-submit-job-bg": 2, "gearman-can-do": 1, "gearman-grab-job": 1, "gearman-show-jobs": 1,
		"gearman-submit-job": 0, "cmd-put": 0,
	})
}

// errors are how often each error was answered, of all protocols; those that never were are
// left out.
func (f *fixture) errors() map[string]uint64 {
	n, at := f.d.Server.Host().Sums().Errors, 0
	m := make(map[string]uint64)
	for _, front := range f.d.Server.Fronts() {
		for _, name := range front.Errors() {
			if n[at] > 0 {
				m[front.Name()+" "+name] = n[at]
			}
			at++
		}
	}
	if at != len(n) {
		f.t.Errorf("%d errors are counted, and %d have names", len(n), at)
	}
	return m
}

// TestErrorsAreCounted: every answer that says that something was not done, once each.
func TestErrorsAreCounted(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4, MaxJobSize: 10})
	c := f.open()
	c.says("nonsense\ndelete x\ndelete 9\ntouch 9\npeek 9\npeek-ready\nstats-tube none\n",
		"UNKNOWN_COMMAND\nBAD_FORMAT\nNOT_FOUND\nNOT_FOUND\nNOT_FOUND\nNOT_FOUND\nNOT_FOUND\n")
	c.says("put 0 0 9 11\n12345678901\n", "JOB_TOO_BIG\n")
	c.says("put 0 0 9 1\nxyz\nreserve-with-timeout 0\nignore default\n", "EXPECTED_CRLF\nUNKNOWN_COMMAND\nTIMED_OUT\nNOT_IGNORED\n")
	f.d.Server.Drain()
	c.says("put 0 0 9 1\nx\n", "DRAINING\n")
	g := f.openGear()
	g.asks(packet(gearman.SubmitJobBG, "f", "", "x"), string(gearman.AppendError(nil, gearman.ErrorDraining)))
	g.asks(packet(gearman.WorkFail, "H:x:1"), string(gearman.AppendError(nil, gearman.ErrorNoJobResult)))
	g.asks("nonsense\ncancel job H:x:9\n", "ERR UNKNOWN_COMMAND Unknown+server+commandnonsense\r\n", gearman.MsgUnknownJob)
	want := map[string]uint64{
		"beanstalkd unknown_command": 2, "beanstalkd bad_format": 1, "beanstalkd not_found": 5, "beanstalkd job_too_big": 1,
		"beanstalkd expected_crlf": 1, "beanstalkd draining": 1,
		"Gearman queue_error": 1, "Gearman job_not_found": 1, "Gearman unknown_command": 1, "Gearman unknown_job": 1,
	}
	if got := f.errors(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

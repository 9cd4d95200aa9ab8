package router_test

import (
	"maps"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/session"
)

// counter returns a counter, summed over all loops.
func (f *fixture) counter(c session.Counter) int {
	return int(f.d.Server.Host().Sums().Counters[c])
}

// named returns the counts that are not zero, by the names of the protocols.
func (f *fixture) named(counts []uint64, names func(session.Front) []string) map[string]uint64 {
	f.t.Helper()
	m := make(map[string]uint64)
	at := 0
	for _, front := range f.d.Server.Fronts() {
		for _, name := range names(front) {
			if counts[at] > 0 {
				m[front.Name()+" "+name] = counts[at]
			}
			at++
		}
	}
	if at != len(counts) {
		f.t.Errorf("%d counts, and %d have names", len(counts), at)
	}
	return m
}

// TestCommandsAreCounted: each command counts under its name, also if it is refused; invalid lines do
// not count. Input bytes and visits to shards are counted, too.
func TestCommandsAreCounted(t *testing.T) {
	f := newGearFixture(t)
	c, g := f.open(), f.openGear()
	visits := f.counter(session.CountVisits)
	c.says("put 0 0 9 1\nx\n", "INSERTED 1\n")
	c.says("reserve\ndelete 1\nnonsense\n", "RESERVED 1 1\nx\nDELETED\nUNKNOWN_COMMAND\n")
	if bytes, v := f.counter(session.CountReceived), f.counter(session.CountVisits)-visits; bytes != 45 || v != 3 {
		t.Errorf("%d bytes and %d visits, want 45 and 3", bytes, v)
	}
	g.asks(packet(gearman.SubmitJobBG, "f", "", "x")+packet(gearman.CanDo, "f")+packet(gearman.GrabJob),
		answer(gearman.JobCreated, "H:x:2"), answer(gearman.JobAssign, "H:x:2", "f", "x"))
	g.asks("show jobs\nnonsense\n", "H:x:2\t0\t0\t1\n.\n", "ERR UNKNOWN_COMMAND Unknown+server+commandnonsense\r\n")
	f.d.Server.Drain()
	g.asks(packet(gearman.SubmitJobBG, "f", "", "x"), string(gearman.AppendError(nil, gearman.ErrorDraining)))
	want := map[string]uint64{
		"beanstalkd cmd-put": 1, "beanstalkd cmd-reserve": 1, "beanstalkd cmd-delete": 1,
		"Gearman gearman-submit-job-bg": 2, "Gearman gearman-can-do": 1, "Gearman gearman-grab-job": 1, "Gearman gearman-show-jobs": 1,
	}
	if got := f.named(f.d.Server.Host().Sums().Commands, session.Front.Kinds); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestErrorsAreCounted: every error reply counts once.
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
	if got := f.named(f.d.Server.Host().Sums().Errors, session.Front.Errors); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestOperationsInABusyShardAreCounted: three operations wait for the shard's owner, which runs them.
func TestOperationsInABusyShardAreCounted(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1})
	release := f.own(0)
	for range 3 {
		f.open().send("put 0 0 9 1\r\nx\r\n")
	}
	// Each tried twice: before and after it left its message.
	if busy, sent := f.counter(session.CountBusy), f.counter(session.CountLeft); busy != 6 || sent != 3 {
		t.Errorf("%d times busy, %d messages; want 6 and 3", busy, sent)
	}
	release()
	f.rest()
	if most := f.d.Shards()[0].Counters().Deepest; most != 3 || f.other.Helped != 3 {
		t.Errorf("at most %d messages at once, %d run by the owner; want 3 each", most, f.other.Helped)
	}
}

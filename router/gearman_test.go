package router_test

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/shard/core"
	"polystalk/shard/record"
)

// openGear opens a Gearman connection.
func (f *fixture) openGear() *testConn {
	c := &testConn{f: f}
	c.s = f.l.OpenGearman(c)
	return c
}

func packet(t gearman.Type, args ...string) string {
	return string(gearman.AppendRequest(nil, t, split(args)...))
}

func split(args []string) (list [][]byte) {
	for _, a := range args {
		list = append(list, []byte(a))
	}
	return list
}

func answer(t gearman.Type, args ...string) string {
	return string(gearman.AppendReply(nil, t, split(args)...))
}

// asks sends a packet, rests, and wants exactly these replies.
func (c *testConn) asks(text string, want ...string) {
	c.f.t.Helper()
	c.send(text)
	c.f.rest()
	c.hears(want...)
}

func (c *testConn) hears(want ...string) {
	c.f.t.Helper()
	var all strings.Builder
	for _, w := range want {
		all.WriteString(w)
	}
	if got := c.take(); got != all.String() {
		c.f.t.Fatalf("got  %.300q\nwant %.300q", got, all.String())
	}
}

func newGearFixture(t *testing.T) *fixture {
	return newFixture(t, router.Config{Loops: 1, Shards: 4, Gearman: router.GearmanConfig{Prefix: "H:x"}})
}

func TestGearmanWorkerOfABeanstalkdClient(t *testing.T) {
	f := newGearFixture(t)
	w, b := f.openGear(), f.open()
	w.asks(packet(gearman.CanDo, "f") + packet(gearman.PreSleep))
	b.says("use f\nput 10 0 2 4\nwork\n", "USING f\nINSERTED 1\n")
	w.hears(answer(gearman.Noop))
	w.asks(packet(gearman.GrabJobUniq), answer(gearman.JobAssignUniq, "H:x:1", "f", "", "work"))
	f.pass(2 * core.Second)
	w.asks(packet(gearman.WorkComplete, "H:x:1", ""), answer(gearman.Error, "JOB_NOT_FOUND", "Job given in work result not found"))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "work"))
	w.asks(packet(gearman.WorkFail, "H:x:1"))
	b.says("peek-buried\nkick 1\n", "FOUND 1 4\nwork\nKICKED 1\n")
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "work"))
	w.asks(packet(gearman.WorkComplete, "H:x:1", "done"))
	b.says("peek 1\n", "NOT_FOUND\n")
	f.check()
}

// TestNamesOfFunctionsAreQuoted: a function's name may have any bytes, but makes no additional line
// in beanstalkd's replies.
func TestNamesOfFunctionsAreQuoted(t *testing.T) {
	f := newGearFixture(t)
	c, b := f.openGear(), f.open()
	var list strings.Builder
	list.WriteString("---\n- default\n")
	for i, tt := range []struct{ name, inList, inStats string }{
		{"x\"\nstate: buried", `"x\"\nstate: buried"`, `"x\"\nstate: buried"`},
		{"a b\x01", `"a b\x01"`, `"a b\x01"`},
		{"", `""`, `""`},
		{"plain", "plain", `"plain"`},
	} {
		list.WriteString("- " + tt.inList + "\n")
		c.asks(packet(gearman.SubmitJobBG, tt.name, "", "data"), answer(gearman.JobCreated, fmt.Sprintf("H:x:%d", i+1)))
		b.send(fmt.Sprintf("stats-job %d\r\n", i+1))
		f.rest()
		if lines := strings.Split(b.take(), "\n"); len(lines) < 5 || lines[3] != "tube: "+tt.inStats || lines[4] != "state: ready" {
			t.Errorf("%q: got %q", tt.name, lines)
		}
	}
	b.send("list-tubes\r\n")
	f.rest()
	if got, want := b.take(), fmt.Sprintf("OK %d\r\n%s\r\n", len(list.String()), list.String()); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	f.check()
}

// TestResetOfManyAbilities: RESET_ABILITIES visits a shard once, not once for each function.
func TestResetOfManyAbilities(t *testing.T) {
	f := newGearFixture(t)
	w := f.openGear()
	const functions = 2000
	for i := range functions {
		name := fmt.Sprintf("f%d", i)
		w.send(packet(gearman.CanDo, name) + packet(gearman.CanDo, name) + packet(gearman.SubmitJobBG, name, "", "x"))
	}
	f.rest()
	w.take()
	w.send(packet(gearman.PreSleep) + packet(gearman.CantDo, "f7") + packet(gearman.CanDo, "f7"))
	w.send(strings.Repeat(packet(gearman.GrabJob), functions))
	f.rest()
	w.take()
	visits := f.l.Loop.Batch().Visits
	w.send(packet(gearman.ResetAbilities) + packet(gearman.PreSleep) + packet(gearman.GrabJob))
	f.rest()
	w.hears(answer(gearman.NoJob))
	if n := f.l.Loop.Batch().Visits - visits; n > 2*4 {
		t.Errorf("%d visits", n)
	}
	f.check()
}

// A parter is a client that implements session.Parter.
type parter struct {
	testConn
	parted bool
}

func (c *parter) Part() { c.parted = true }

// TestSleeperThatRegistersLooksForJobs: a sleeping worker registers at a busy shard, and a job
// arrives before the worker has the reply. The worker must get its NOOP.
func TestSleeperThatRegistersLooksForJobs(t *testing.T) {
	f := newGearFixture(t)
	w, c := f.openGear(), f.openGear()
	w.asks(packet(gearman.PreSleep))
	release := f.own(f.d.ShardOf("f"))
	w.send(packet(gearman.CanDo, "f"))
	release() // the shard has registered it, and the reply is on its way
	c.send(packet(gearman.SubmitJobBG, "f", "", "x"))
	f.rest()
	c.hears(answer(gearman.JobCreated, "H:x:1"))
	w.hears(answer(gearman.Noop))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "x"))
	// It is not notified of older jobs, asleep or not.
	c.asks(packet(gearman.SubmitJobBG, "g", "", "x"), answer(gearman.JobCreated, "H:x:2"))
	w.asks(packet(gearman.PreSleep) + packet(gearman.CanDo, "g"))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:2", "g", "x"))
	f.check()
}

// TestSleeperThatIsWokenWhileItRegisters: a worker that registers while it sleeps and is woken
// before the reply is no longer counted as sleeping: a job for the function wakes no worker.
func TestSleeperThatIsWokenWhileItRegisters(t *testing.T) {
	f := newGearFixture(t)
	w, c := f.openGear(), f.openGear()
	g, h := "g", "h"
	for f.d.ShardOf(g) == f.d.ShardOf(h) {
		h += "h"
	}
	w.asks(packet(gearman.CanDo, h) + packet(gearman.PreSleep))
	release := f.own(f.d.ShardOf(g))
	w.send(packet(gearman.CanDo, g))
	c.send(packet(gearman.SubmitJobBG, h, "", "x"))
	f.rest()
	c.hears(answer(gearman.JobCreated, "H:x:1"))
	w.hears(answer(gearman.Noop))
	release()
	f.rest()
	c.asks(packet(gearman.SubmitJobBG, g, "", "x"), answer(gearman.JobCreated, "H:x:2"))
	w.hears()
	w.asks(packet(gearman.PreSleep), answer(gearman.Noop))
	f.check()
}

// TestServersOfAClusterShareHandles: a client may use the handle of one server at another server.
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
		cfg := router.Config{Gearman: router.GearmanConfig{Prefix: tt.given}}
		f := newFixture(t, cfg)
		f.d.Server.ForCluster(tt.number)
		c := f.openGear()
		c.asks(packet(gearman.SubmitJobBG, "f", "", "x"), answer(gearman.JobCreated, tt.want+":1"))
		if err := applied(f.d.Server, router.Settings{}); err != nil {
			t.Errorf("other settings cannot be changed: %v", err)
		}
	}
}

// TestRefusedClientCanReadTheReason: after an invalid packet the server uses Part, because the
// client may send more; after a half-close it does not.
func TestRefusedClientCanReadTheReason(t *testing.T) {
	for _, ends := range []bool{false, true} {
		f := newGearFixture(t)
		c := &parter{testConn: testConn{f: f}}
		c.s = f.l.OpenGearman(c)
		release := f.own(f.d.ShardOf("f"))
		c.send(packet(gearman.CanDo, "f") + packet(gearman.NumTypes, ""))
		if ends {
			c.s.HalfClose()
		}
		release()
		f.rest()
		if !c.s.Gone() || c.parted == ends || c.closed != ends {
			t.Errorf("at its end %t: gone %t, parted %t, closed %t", ends, c.s.Gone(), c.parted, c.closed)
		}
		f.check()
	}
}

// A hoarder is a client that does not read.
type hoarder struct {
	testConn
	copied int // bytes of unsent that are not shared
}

func (c *hoarder) Write(p []byte)              { c.unsent += len(p); c.copied += len(p) }
func (c *hoarder) WriteStable(pieces [][]byte) { c.unsent += core.Large(pieces).Len() }

// TestCopiesForAClientThatDoesNotRead: a client gets a report once for each of its submissions of
// the job. The memory for unread reports is bounded, and its job continues.
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

// TestUnreadReportsAreShared: a report to many clients that do not read is stored once.
func TestUnreadReportsAreShared(t *testing.T) {
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

// police gives all shards these policies.
func (f *fixture) police(list ...record.Policy) {
	for _, sh := range f.d.Shards() {
		sh.InstallPolicies(core.NewPolicies(list))
	}
}

// TestAttemptsOfAGearmanJob: a worker that reports each failed attempt in another way. A WORK_FAIL
// right behind a WORK_EXCEPTION belongs to the same attempt, a later one does not.
func TestAttemptsOfAGearmanJob(t *testing.T) {
	f := newGearFixture(t)
	f.police(record.Policy{Match: "f", Attempts: 4})
	w, c, b := f.openGear(), f.openGear(), f.open()
	w.asks(packet(gearman.CanDo, "f"))
	c.asks(packet(gearman.SubmitJobBG, "f", "u", "x")+packet(gearman.SubmitJob, "f", "u", ""),
		answer(gearman.JobCreated, "H:x:1")+answer(gearman.JobCreated, "H:x:1"))
	grab, given := packet(gearman.GrabJobAll), answer(gearman.JobAssignUniq, "H:x:1", "f", "u", "x")
	w.asks(grab, given)
	w.asks(packet(gearman.WorkException, "H:x:1", "boom")+packet(gearman.WorkFail, "H:x:1")+grab, given)
	w.asks(packet(gearman.WorkException, "H:x:1", "boom")+grab, given)
	w.asks(packet(gearman.WorkStatus, "H:x:1", "1", "2")+packet(gearman.WorkFail, "H:x:1")+packet(gearman.WorkFail, "H:x:1"),
		answer(gearman.Error, "JOB_NOT_FOUND", "Job given in work result not found"))
	c.asks(packet(gearman.GetStatus, "H:x:1")+"show jobs\nstatus\n", answer(gearman.WorkStatus, "H:x:1", "1", "2"),
		answer(gearman.StatusRes, "H:x:1", "1", "0", "0", "0"), "H:x:1\t0\t0\t1\n.\nf\t1\t0\t1\n.\n")
	w.asks(grab, given)
	w.asks(packet(gearman.ResetAbilities)+packet(gearman.PreSleep)+grab, answer(gearman.NoJob))
	c.hears(answer(gearman.WorkFail, "H:x:1"))
	b.says("peek-buried\n", "NOT_FOUND\n")
	b.says("use f\npeek-buried\n", "USING f\nFOUND 1 1\nx\n")
	c.asks(packet(gearman.SubmitJobBG, "f", "u", "y"), answer(gearman.JobCreated, "H:x:2"))
	f.check()
}

// TestGearmanWorkerOfAHeldTube: it gets NO_JOB and sleeps, and NOOP wakes it for a slot and a token.
func TestGearmanWorkerOfAHeldTube(t *testing.T) {
	f := newGearFixture(t)
	f.police(record.Policy{Match: "n", RunningPlus: 2}, record.Policy{Match: "rate", ThousandthsASecond: 1000})
	v, w, c := f.openGear(), f.openGear(), f.openGear()
	sleep := packet(gearman.GrabJobAll) + packet(gearman.GrabJob) + packet(gearman.PreSleep)
	asleep := answer(gearman.NoJob) + answer(gearman.NoJob)
	for i, name := range []string{"n", "rate"} {
		handles := []string{fmt.Sprintf("H:x:%d", 2*i+1), fmt.Sprintf("H:x:%d", 2*i+2)}
		v.asks(packet(gearman.CanDo, name))
		w.asks(packet(gearman.CanDo, name))
		c.asks(packet(gearman.SubmitJobBG, name, "", "x")+packet(gearman.SubmitJobLow, name, "", "y"),
			answer(gearman.JobCreated, handles[0])+answer(gearman.JobCreated, handles[1]))
		v.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, handles[0], name, "x"))
		w.asks(sleep, asleep)
		v.asks(packet(gearman.GrabJobUniq), answer(gearman.NoJob))
		if v.asks(packet(gearman.WorkComplete, handles[0], "")); name == "rate" {
			w.hears()
			f.pass(core.Second)
		}
		w.hears(answer(gearman.Noop))
		w.asks(packet(gearman.GrabJobUniq), answer(gearman.JobAssignUniq, handles[1], name, "", "y"))
		w.asks(packet(gearman.WorkComplete, handles[1], ""))
		c.hears(answer(gearman.WorkComplete, handles[1], ""))
	}
	f.check()
}

// TestFullFunction: the policy's limit has gearmand's reply, and so has maxqueue.
func TestFullFunction(t *testing.T) {
	f := newGearFixture(t)
	f.police(record.Policy{Match: "f", MaxJobs: 1})
	c, b := f.openGear(), f.open()
	full := answer(gearman.Error, "QUEUE_ERROR", "Job queue is full")
	c.asks(packet(gearman.SubmitJobBG, "f", "u", "x"), answer(gearman.JobCreated, "H:x:1"))
	c.asks(packet(gearman.SubmitJob, "f", "v", "x"), full)
	c.asks(packet(gearman.SubmitJobEpoch, "f", "w", "9999999999", "x"), full)
	c.asks(packet(gearman.SubmitJob, "f", "u", "x"), answer(gearman.JobCreated, "H:x:1"))
	b.says("use f\nput 0 0 1 1\ny\nput 0 9 1 1\ny\n", "USING f\nOUT_OF_MEMORY\nOUT_OF_MEMORY\n")
	f.check()
}

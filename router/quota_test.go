package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router/direct"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/wal"
)

// timers makes the fixture's throttled sessions wait until their number is fired.
type timers struct {
	waits   []time.Duration
	fire    []func()
	stopped int
}

func (f *accessFixture) catchTimers() *timers {
	t := new(timers)
	f.d.Server.Host().After = func(d time.Duration, fire func()) func() bool {
		t.waits, t.fire = append(t.waits, d), append(t.fire, fire)
		return func() bool { t.stopped++; return true }
	}
	return t
}

// pass fires the timers that wait now.
func (t *timers) pass(f *accessFixture) {
	fire := t.fire
	t.fire = nil
	for _, one := range fire {
		one()
	}
	f.rest()
}

// used returns the jobs and bytes of an identity.
func (f *accessFixture) used(name string) (jobs, bytes int64) {
	for _, i := range f.ids.All() {
		if i.Name() == name {
			return f.d.Server.Host().Map.Used(i.Class())
		}
	}
	return -1, -1
}

func (f *accessFixture) wantsUsed(name string, jobs, bytes int64) {
	f.t.Helper()
	if j, b := f.used(name); j != jobs || b != bytes {
		f.t.Errorf("%s uses %d jobs, %d bytes; want %d, %d", name, j, b, jobs, bytes)
	}
}

func TestConnectionsAboveTheQuotaAreRefused(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayPut+"\nconnections = 2", "b", mayPut)
	first, second, other := f.as("a"), f.as("a"), f.as("b")
	for range 3 { // attempts take no place
		c := f.open()
		c.says("auth "+tokenOf("a")+"\n", "UNAUTHORIZED\n")
		if !c.closed {
			t.Fatal("it is not closed")
		}
	}
	g := f.openGear()
	g.asks(packet(gearman.OptionReq, "auth "+tokenOf("a")), answer(gearman.Error, "UNAUTHORIZED", "The token is not one of the server's"))
	first.s.Abort()
	f.rest()
	third := f.as("a")
	if n := f.reload("a", mayPut+"\nconnections = 1", "b", mayPut); n != 0 || second.closed || third.closed || other.closed {
		t.Errorf("%d sessions are killed: a smaller quota closes none", n)
	}
	second.s.Abort()
	third.s.Abort()
	f.rest()
	f.as("a")
	if got := f.ids.All()[0].Connections(); got != 1 {
		t.Errorf("%d connections are counted", got)
	}
	f.check()
}

// TestDefaultAboveItsQuotaMayAuthenticate: such a client has no right before.
func TestDefaultAboveItsQuotaMayAuthenticate(t *testing.T) {
	f := newAccessFixture(t, 4, "default", mayPut+"\nconnections = 1", "a", mayPut)
	f.open().says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	c := f.open()
	c.says("put 0 0 60 1\nx\n", "UNKNOWN_COMMAND\n")
	if !c.closed {
		t.Error("it is not closed")
	}
	f.as("a").says("put 0 0 60 1\nx\n", "INSERTED 2\n")
	f.check()
}

// TestJobsAboveTheQuotaAreRefused, over all tubes and shards, in both protocols. What is put by
// others counts, deletes always succeed, and the stream of commands stays whole.
func TestJobsAboveTheQuotaAreRefused(t *testing.T) {
	f := newAccessFixture(t, 8, "a", "put = [\"a-*\"]\nmanage = [\"a-*\"]\njobs = 20\nbytes = 1000", "ops", mayAll)
	a, ops := f.as("a"), f.as("ops")
	for i := range 19 {
		a.says(fmt.Sprintf("use a-%d\nput 0 0 60 10\n0123456789\n", i), fmt.Sprintf("USING a-%d\nINSERTED %d\n", i, i+1))
	}
	ops.says("use a-x\nput 0 0 60 1\nx\n", "USING a-x\nINSERTED 20\n")
	f.wantsUsed("a", 20, 191)
	for range 3 {
		a.says("use a-new\nput 0 0 60 8\ndelete 1\n", "USING a-new\nOUT_OF_MEMORY\n")
	}
	g := f.openGear()
	g.asks(packet(gearman.OptionReq, "auth "+tokenOf("a")), answer(gearman.OptionRes, "auth"))
	g.asks(packet(gearman.SubmitJobBG, "a-f", "", "data"), answer(gearman.Error, "QUEUE_ERROR", "Job queue is full"))
	ops.says("put 0 0 60 1\ny\n", fmt.Sprintf("INSERTED %d\n", 24)) // without a limit, and counted
	f.wantsUsed("a", 21, 192)
	a.says("delete 1\ndelete 2\nput 0 0 60 1\nz\n", "DELETED\nDELETED\nINSERTED 25\n")
	f.wantsUsed("a", 20, 173)
	ops.says("use other\nput 0 0 60 1\nz\n", "USING other\nINSERTED 26\n")
	f.wantsUsed("a", 20, 173)
	f.check()
}

func TestBytesAboveTheQuotaAreRefused(t *testing.T) {
	f := newAccessFixture(t, 8, "a", mayAllVerbs+"bytes = 100000")
	a := f.as("a")
	body := strings.Repeat("x", 60000)
	a.says("put 0 0 60 60000\n"+body+"\n", "INSERTED 1\n")
	a.says("put 0 0 60 60000\n"+body+"\n", "OUT_OF_MEMORY\n")
	a.says("put 0 0 60 40000\n"+body[:40000]+"\nput 0 0 60 0\n\nput 0 0 60 1\nx\n", "INSERTED 3\nINSERTED 4\nOUT_OF_MEMORY\n")
	a.says("delete 1\nput 0 0 60 1\nx\n", "DELETED\nINSERTED 6\n")
	f.wantsUsed("a", 3, 40001)
	f.check()
}

const mayAllVerbs = "put = [\"*\"]\nwork = [\"*\"]\nmanage = [\"*\"]\n"

// TestJobsOfAClassAreCountedInEachState, and not after a flush.
func TestJobsOfAClassAreCountedInEachState(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayAllVerbs+"jobs = 10")
	a := f.as("a")
	a.says("put 0 0 60 2\nxx\nput 0 9 60 2\nxx\nput 0 0 60 2\nxx\nreserve\nbury 1 0\nreserve\n",
		"INSERTED 1\nINSERTED 2\nINSERTED 3\nRESERVED 1 2\nxx\nBURIED\nRESERVED 3 2\nxx\n")
	f.wantsUsed("a", 3, 6)
	a.says("kick 9\nrelease 3 0 0\ndelete 2\n", "KICKED 1\nRELEASED\nDELETED\n")
	f.wantsUsed("a", 2, 4)
	a.s.Abort()
	f.check()
}

// TestReloadGivesTubesTheirClassesAgain: the jobs of a tube change to another identity at once.
func TestReloadGivesTubesTheirClassesAgain(t *testing.T) {
	const limitA, limitB = "put = [\"x*\"]\njobs = 10", "put = [\"*\"]\nbytes = 100"
	f := newAccessFixture(t, 4, "a", limitA, "b", limitB)
	classify := func() {
		h := f.d.Server.Host()
		c := direct.New(h.Map, h.Clock)
		for i := range h.Map.Shards() {
			for from, more := 0, true; more; more = from > 0 {
				c.Visit(t.Context(), i, func(sh *shard.Shard) { from = sh.Classify(from) })
			}
		}
	}
	b := f.as("b")
	for i := range 200 { // more tubes than one visit classifies
		b.says(fmt.Sprintf("use x%d\nput 0 0 60 0\n\n", i), fmt.Sprintf("USING x%d\nINSERTED %d\n", i, i+1))
		if i == 9 {
			f.wantsUsed("a", 10, 0)
			f.change("b", limitB, "a", limitA)
			classify()
			f.wantsUsed("a", 0, 0)
			f.wantsUsed("b", 10, 0)
		}
	}
	f.wantsUsed("b", 200, 0)
	f.change("b", mayPut, "a", "put = [\"x1*\"]\njobs = 1")
	classify()
	f.wantsUsed("b", 0, 0)
	f.wantsUsed("a", 111, 0)
	f.change("b", mayPut)
	classify()
	b.says("put 0 0 60 0\n\n", "INSERTED 201\n")
	f.check()
}

// TestPutsAboveTheRateWait, in all sessions of the identity together, also after they connect again.
// Other commands do not wait, nor do other identities.
func TestPutsAboveTheRateWait(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayAllVerbs+"puts-per-second = 20", "b", mayPut)
	clock := f.catchTimers()
	first, second := f.as("a"), f.as("a")
	first.says("put 0 0 60 1\n1\nput 0 0 60 1\n2\nput 0 0 60 1\n3\n", "INSERTED 1\nINSERTED 2\n")
	if !first.stoppedBy(session.Throttled) {
		t.Fatal("the third put does not wait")
	}
	second.says("list-tube-used\nreserve\nput 0 0 60 1\n4\nlist-tube-used\n", "USING default\nRESERVED 1 1\n1\n")
	f.as("b").says("put 0 0 60 1\nx\n", "INSERTED 3\n")
	second.s.Abort() // its put is given back
	f.rest()
	third := f.as("a")
	third.says("put 0 0 60 1\n5\n", "")
	if want := []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond}; !slices.Equal(clock.waits, want) {
		t.Errorf("puts wait %v, want %v", clock.waits, want)
	}
	clock.pass(f)
	first.wants("INSERTED 4\n")
	third.wants("INSERTED 5\n")
	if got, _ := f.ids.All()[0].Throttled(); got != 250*time.Millisecond {
		t.Errorf("throttled for %v", got)
	}
	f.check()
}

// TestHighRateWaitsAtLeastTenMilliseconds: a wait lets many puts run.
func TestHighRateWaitsAtLeastTenMilliseconds(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayPut+"\nputs-per-second = 100000")
	clock := f.catchTimers()
	a := f.as("a")
	const n = 10002
	for range n / 6 {
		a.send(strings.Repeat("put 0 0 60 0\r\n\r\n", 6))
	}
	f.rest()
	if len(clock.waits) != 1 || clock.waits[0] != 10*time.Millisecond {
		t.Errorf("waits: %v", clock.waits)
	}
	for len(clock.fire) > 0 {
		clock.pass(f)
	}
	if got := strings.Count(a.take(), "INSERTED"); got != n {
		t.Errorf("%d jobs are put, want %d", got, n)
	}
	f.check()
}

// TestThrottledClientKeepsNoBody: it waits before the body is received.
func TestThrottledClientKeepsNoBody(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayPut+"\nputs-per-second = 1")
	clock := f.catchTimers()
	a := f.as("a")
	a.says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	a.send("put 0 0 60 60000\r\n" + strings.Repeat("x", 50000))
	f.rest()
	if used, inside, _ := f.d.Server.Host().BodyPlaces(); used != 0 || inside != 0 {
		t.Errorf("%d bodies have places", inside)
	}
	a.send(strings.Repeat("x", 10000) + "\r\n")
	f.rest()
	a.wants("")
	clock.pass(f)
	a.wants("INSERTED 2\n")
	f.check()
}

// TestDeniedPutCostsNoRate, nor does one that is too big.
func TestDeniedPutCostsNoRate(t *testing.T) {
	f := newAccessFixture(t, 4, "a", "put = [\"a\"]\nputs-per-second = 1")
	clock := f.catchTimers()
	a := f.as("a")
	for range 5 {
		a.says("put 0 0 60 1\nx\n", "UNKNOWN_COMMAND\n")
	}
	a.says("use a\nput 0 0 60 1\nx\n", "USING a\nINSERTED 1\n")
	if len(clock.waits) > 0 {
		t.Errorf("waits: %v", clock.waits)
	}
	f.check()
}

func TestSubmissionsAboveTheRateWait(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayPut+"\nputs-per-second = 1")
	clock := f.catchTimers()
	g := f.openGear()
	g.asks(packet(gearman.OptionReq, "auth "+tokenOf("a")), answer(gearman.OptionRes, "auth"))
	g.send(packet(gearman.SubmitJobBG, "f", "", "1") + packet(gearman.SubmitJobBG, "f", "", "2"))
	f.rest()
	first := g.take()
	clock.pass(f)
	if second := g.take(); first == "" || len(second) != len(first) {
		t.Errorf("replies %q, and later %q", first, second)
	}
	f.check()
}

// TestThrottledClientThatEndsKeepsNothing: its put is given back, and its timer is stopped. After a
// FIN its puts are refused, because they would keep the session.
func TestThrottledClientThatEndsKeepsNothing(t *testing.T) {
	for _, end := range []string{"half-close", "abort"} {
		f := newAccessFixture(t, 4, "a", mayPut+"\nputs-per-second = 1")
		clock := f.catchTimers()
		a := f.as("a")
		a.says("put 0 0 60 1\n1\nput 0 0 60 1\n2\nput 0 0 60 1\n3\n", "INSERTED 1\n")
		if end == "abort" {
			a.s.Abort()
			f.rest()
		} else {
			a.s.HalfClose()
			f.rest()
			a.wants("OUT_OF_MEMORY\nOUT_OF_MEMORY\n")
		}
		if !a.closed || !a.s.Gone() || clock.stopped != 1 {
			t.Errorf("%s: closed %t, gone %t, %d timers are stopped", end, a.closed, a.s.Gone(), clock.stopped)
		}
		f.as("a").says("put 0 0 60 1\n4\n", "")
		if want := []time.Duration{time.Second, time.Second}; !slices.Equal(clock.waits, want) {
			t.Errorf("%s: puts wait %v, want %v", end, clock.waits, want)
		}
		clock.pass(f) // also the stopped timer, which may have fired before
		f.check()
	}
}

// TestPutThatWouldWaitForTooLongIsRefused, in both protocols, and costs no rate.
func TestPutThatWouldWaitForTooLongIsRefused(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayPut+"\nputs-per-second = 1")
	clock := f.catchTimers()
	f.as("a").says("put 0 0 60 1\n0\n", "INSERTED 1\n")
	for range 10 {
		f.as("a").says("put 0 0 60 1\nx\n", "")
	}
	last := f.as("a")
	for range 3 {
		last.says("put 0 0 60 8\ndelete 1\nlist-tube-used\n", "OUT_OF_MEMORY\nUSING default\n")
	}
	g := f.openGear()
	g.asks(packet(gearman.OptionReq, "auth "+tokenOf("a")), answer(gearman.OptionRes, "auth"))
	g.asks(packet(gearman.SubmitJobBG, "f", "", "data"), answer(gearman.Error, "QUEUE_ERROR", "QUEUE_ERROR"))
	if n := len(clock.waits); n != 10 || slices.Max(clock.waits) != 10*time.Second {
		t.Errorf("%d puts wait %v", n, clock.waits)
	}
	f.check()
}

// TestReloadAppliesARateToWaitingPuts: they run at once, and later ones have the new rate.
func TestReloadAppliesARateToWaitingPuts(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayPut+"\nputs-per-second = 1")
	clock := f.catchTimers()
	a := f.as("a")
	for range 3 {
		f.as("a").send("put 0 0 60 1\r\nx\r\n")
	}
	a.says("put 0 0 60 1\ny\n", "")
	f.reload("a", mayPut+"\nputs-per-second = 1000")
	if got := a.take(); !strings.HasPrefix(got, "INSERTED ") {
		t.Errorf("the put that waited has the reply %q", got)
	}
	a.send(strings.Repeat("put 0 0 60 0\r\n\r\n", 100))
	f.rest()
	if n := strings.Count(a.take(), "INSERTED"); n != 100 {
		t.Errorf("%d of 100 puts are as fast as the new rate", n)
	}
	if len(clock.waits) != 3 || clock.stopped != 3 {
		t.Errorf("puts wait %v, and %d timers are stopped", clock.waits, clock.stopped)
	}
	f.check()
}

// TestPutThatWaitsForRoomPaysOnce, however often it tries again.
func TestPutThatWaitsForRoomPaysOnce(t *testing.T) {
	f := newAccessFixture(t, 1, "a", mayPut+"\nputs-per-second = 1", "default", mayPut)
	clock := f.catchTimers()
	d := &fillingDisk{Disk: wal.Dir(t.TempDir())}
	j := f.keepOn(d)
	a := f.as("a")
	f.exhaust(j)
	a.says("put 0 0 60 1\nx\n", "")
	if !a.stoppedBy(session.NoSpace) {
		t.Fatal("it does not wait for room")
	}
	f.tended(j)
	f.committed(j)
	if got := a.take(); !strings.HasPrefix(got, "INSERTED ") {
		t.Errorf("the put has the reply %q", got)
	}
	if len(clock.waits) > 0 {
		t.Errorf("the put also waits %v for its rate", clock.waits)
	}
	f.settled(j)
}

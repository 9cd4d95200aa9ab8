package shard

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"polystalk/shard/slab"
)

// world is a core under test; Check runs after everything it does.
type world struct {
	t    *testing.T
	core *Core
	now  Time
	last JobID
	dir  []string
}

// peer is a connection.
type peer struct {
	*world
	id     ClientID
	tube   TubeID
	waiter *Waiter
}

func (w *world) TubeAdded(name string)   { w.dir = append(w.dir, "+"+name) }
func (w *world) TubeRemoved(name string) { w.dir = append(w.dir, "-"+name) }

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: 1_700_000_000 * Second}
	w.core = NewCore(w)
	w.core.Pin("default")
	t.Cleanup(w.core.Close)
	return w
}

// join makes a connection that uses and watches a tube.
func (w *world) join(name string) *peer {
	w.t.Helper()
	p := &peer{world: w, waiter: new(Waiter)}
	r := w.do(Op{Kind: OpJoin, Name: []byte(name), Waiter: p.waiter}, StatusOK)
	p.id, p.tube = r.Client, r.Tube
	return p
}

func (w *world) do(op Op, want Status) Reply {
	w.t.Helper()
	var r Reply
	w.core.Apply(w.now, &op, &r)
	if r.Status != want {
		w.t.Fatalf("operation %d: status %d, want %d", op.Kind, r.Status, want)
	}
	w.check()
	return r
}

func (w *world) check() {
	w.t.Helper()
	if err := w.core.Check(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pass(d Time) {
	w.t.Helper()
	w.now += d
	w.core.Expire(w.now)
	w.check()
}

// fill puts n jobs without a Check after each.
func (p *peer) fill(n int, pri, delay uint32) {
	p.t.Helper()
	for range n {
		p.last++
		var r Reply
		p.core.Apply(p.now, &Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: p.last, Pri: pri, Delay: delay, TTR: 10}, &r)
	}
	p.check()
}

func (p *peer) put(pri, delay, ttr uint32) JobID {
	p.t.Helper()
	p.last++
	body := fmt.Appendf(nil, "job %d", p.last)
	p.do(Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: p.last, Pri: pri, Delay: delay, TTR: ttr, Body: body}, StatusOK)
	return p.last
}

func (p *peer) reserve(want JobID) Reply {
	p.t.Helper()
	r := p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, StatusReserved)
	if r.ID != want {
		p.t.Fatalf("reserved job %d, want %d", r.ID, want)
	}
	return r
}

func (p *peer) nothing() {
	p.t.Helper()
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, StatusTimedOut)
}

// wait begins a wait that has to wait.
func (p *peer) wait(until Time) uint64 {
	p.t.Helper()
	seq := p.waiter.Arm()
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Wait: true, Until: until, Seq: seq}, StatusWaiting)
	return seq
}

func (p *peer) on(kind OpKind, id JobID, want Status) {
	p.t.Helper()
	p.do(Op{Kind: kind, Client: p.id, ID: id}, want)
}

func (p *peer) release(id JobID, pri, delay uint32) {
	p.t.Helper()
	p.do(Op{Kind: OpRelease, Client: p.id, ID: id, Pri: pri, Delay: delay}, StatusOK)
}

func (p *peer) kick(n uint32) uint32 {
	p.t.Helper()
	return p.do(Op{Kind: OpKick, Tube: p.tube, N: n}, StatusOK).N
}

func (w *world) pause(name string, seconds uint32) {
	w.t.Helper()
	w.do(Op{Kind: OpPause, Name: []byte(name), Delay: seconds}, StatusOK)
}

func (w *world) stats(id JobID) JobStats {
	w.t.Helper()
	var s JobStats
	w.do(Op{Kind: OpStatsJob, ID: id, JobStats: &s}, StatusOK)
	return s
}

func (w *world) isIn(id JobID, want State) {
	w.t.Helper()
	if s := w.stats(id); s.State != want {
		w.t.Fatalf("job %d is %s, want %s", id, s.State, want)
	}
}

// wakes takes the wake-ups and wants exactly these, in order.
func (w *world) wakes(want ...string) {
	w.t.Helper()
	var got []string
	for _, x := range w.core.TakeWoken(nil) {
		r := x.Msg.Reply
		got = append(got, fmt.Sprintf("%d: status %d job %d %q", r.Client, r.Status, r.ID, r.Body))
		x.Msg.Done()
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("woken: %q, want %q", got, want)
	}
}

func (p *peer) gets(id JobID) string {
	return fmt.Sprintf("%d: status %d job %d %q", p.id, StatusReserved, id, fmt.Sprintf("job %d", id))
}

func (p *peer) hears(s Status) string { return fmt.Sprintf("%d: status %d job 0 \"\"", p.id, s) }

func TestSmallestPriorityThenOldestIsReserved(t *testing.T) {
	p := newWorld(t).join("default")
	p.put(5, 0, 10)
	p.put(1<<32-1, 0, 10)
	p.put(0, 0, 10)
	p.put(5, 0, 10)
	for _, want := range []JobID{3, 1, 4, 2} {
		if r := p.reserve(want); string(r.Body) != fmt.Sprintf("job %d", want) || r.Large {
			t.Errorf("job %d has body %q", want, r.Body)
		}
	}
	p.nothing()
}

func TestReserveTakesTheBestOfAllWatchedTubes(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	for i := range 40 { // beyond watchScan
		q := w.join(fmt.Sprintf("t%d", i))
		q.put(uint32(100-i), 0, 10)
		if i%2 == 0 {
			p.do(Op{Kind: OpWatch, Client: p.id, Name: fmt.Appendf(nil, "t%d", i)}, StatusOK)
		}
	}
	for i := 38; i >= 0; i -= 2 {
		p.reserve(JobID(i + 1))
	}
	p.nothing()
}

func TestBestJobAboveBoundIsElsewhere(t *testing.T) {
	p := newWorld(t).join("default")
	id := p.put(7, 0, 10)
	seq := p.waiter.Arm()
	for _, bound := range []Key{{}, {6, 99}, {7, id - 1}} {
		p.do(Op{Kind: OpReserve, Client: p.id, Bound: bound, Wait: true, Seq: seq}, StatusElsewhere)
	}
	p.isIn(id, Ready)
	r := p.do(Op{Kind: OpReserve, Client: p.id, Bound: Key{7, id}, Wait: true, Seq: seq}, StatusReserved)
	if r.ID != id {
		t.Errorf("reserved job %d, want %d", r.ID, id)
	}
}

func TestReserveOfATakenWaitTakesNothing(t *testing.T) {
	p := newWorld(t).join("default")
	id := p.put(7, 0, 10)
	seq := p.waiter.Arm()
	if !p.waiter.Claim(seq) || p.waiter.Claim(seq) {
		t.Fatal("a wait must be won exactly once")
	}
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Wait: true, Multi: true, Seq: seq}, StatusTaken)
	p.isIn(id, Ready)
}

func TestReleaseWithDelayWaits(t *testing.T) {
	p := newWorld(t).join("default")
	id := p.put(5, 0, 10)
	p.reserve(id)
	p.release(id, 3, 4)
	p.nothing()
	if s := p.stats(id); s.State != Delayed || s.Pri != 3 || s.Delay != 4 || s.TimeLeft != 4*Second || s.Releases != 1 {
		t.Errorf("%+v", s)
	}
	p.pass(4*Second - 1)
	p.isIn(id, Delayed)
	p.pass(1)
	p.isIn(id, Ready)
	p.reserve(id)
}

func TestTTRRunsOut(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	id := p.put(5, 0, 3)
	p.reserve(id)
	q.wait(Never)
	w.pass(3*Second - 1)
	w.wakes()
	w.pass(1)
	w.wakes(q.gets(id))
	if s := w.stats(id); s.Timeouts != 1 || s.Reserves != 2 || s.Pri != 5 || w.core.Counts().Timeouts != 1 {
		t.Errorf("%+v", s)
	}
	p.on(OpDelete, id, StatusNotFound)
	q.on(OpDelete, id, StatusOK)
}

func TestTouchRestartsTTR(t *testing.T) {
	p := newWorld(t).join("default")
	id := p.put(5, 0, 3)
	p.reserve(id)
	for range 5 {
		p.pass(2 * Second)
		p.on(OpTouch, id, StatusOK)
	}
	p.isIn(id, Reserved)
	p.pass(3 * Second)
	p.isIn(id, Ready)
	p.on(OpTouch, id, StatusNotFound)
}

func TestOnlyTheHolderMayTouchReleaseBuryDelete(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	id := p.put(5, 0, 10)
	for _, kind := range []OpKind{OpTouch, OpRelease, OpBury} {
		p.on(kind, id, StatusNotFound)
	}
	p.reserve(id)
	for _, kind := range []OpKind{OpTouch, OpRelease, OpBury, OpDelete, OpReserveJob, OpKickJob} {
		q.on(kind, id, StatusNotFound)
		w.do(Op{Kind: kind, ID: id}, StatusNotFound) // a connection unknown here
	}
	p.on(OpBury, id, StatusOK)
	q.on(OpDelete, id, StatusOK)
	q.on(OpPeek, id, StatusNotFound)
}

func TestKickPrefersBuried(t *testing.T) {
	p := newWorld(t).join("default")
	a, b := p.put(5, 0, 10), p.put(5, 0, 10)
	delayed := p.put(5, 100, 10)
	p.reserve(a)
	p.reserve(b)
	p.on(OpBury, b, StatusOK)
	p.on(OpBury, a, StatusOK)
	if n := p.kick(1); n != 1 {
		t.Errorf("kicked %d", n)
	}
	p.isIn(b, Ready) // the oldest burial, not the oldest job
	if n := p.kick(10); n != 1 {
		t.Errorf("kicked %d", n)
	}
	p.isIn(a, Ready)
	p.isIn(delayed, Delayed)
	if n := p.kick(10); n != 1 {
		t.Errorf("kicked %d", n)
	}
	p.isIn(delayed, Ready)
	if s := p.stats(delayed); s.Kicks != 1 || s.Delay != 100 {
		t.Errorf("%+v", s)
	}
	if n := p.kick(10); n != 0 {
		t.Errorf("kicked %d", n)
	}
}

func TestKickIsBounded(t *testing.T) {
	p := newWorld(t).join("default")
	p.fill(2*boundedMax+10, 0, 100)
	r := p.do(Op{Kind: OpKick, Tube: p.tube, N: 1 << 31}, StatusMore)
	if r.N != boundedMax || !r.KickDelayed {
		t.Fatalf("%+v", r)
	}
	// A job buried meanwhile must not change the choice.
	p.reserve(1)
	p.on(OpBury, 1, StatusOK)
	r = p.do(Op{Kind: OpKick, Tube: p.tube, N: boundedMax, KickMore: true, KickDelayed: true}, StatusOK)
	if r.N != boundedMax {
		t.Errorf("kicked %d", r.N)
	}
	r = p.do(Op{Kind: OpKick, Tube: p.tube, N: 1 << 31, KickMore: true, KickDelayed: true}, StatusOK)
	if r.N != 10 {
		t.Errorf("kicked %d", r.N)
	}
	p.isIn(1, Buried)
}

// Others empty the buried list between two visits of one kick: the second must
// not turn to delayed jobs.
func TestKickNeverTakesBuriedAndDelayed(t *testing.T) {
	p := newWorld(t).join("default")
	p.fill(boundedMax+1, 0, 0)
	for range boundedMax + 1 {
		var r Reply
		p.core.Apply(p.now, &Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, &r)
		p.core.Apply(p.now, &Op{Kind: OpBury, Client: p.id, ID: r.ID}, &r)
	}
	delayed := p.put(0, 100, 10)
	r := p.do(Op{Kind: OpKick, Tube: p.tube, N: boundedMax + 5}, StatusMore)
	if r.N != boundedMax || r.KickDelayed {
		t.Fatalf("%+v", r)
	}
	p.on(OpDelete, boundedMax+1, StatusOK)
	r = p.do(Op{Kind: OpKick, Tube: p.tube, N: 5, KickMore: true}, StatusOK)
	if r.N != 0 {
		t.Errorf("kicked %d", r.N)
	}
	p.isIn(delayed, Delayed)
}

func TestDeadlineSoonWakesWaiter(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	id := p.put(5, 0, 5)
	p.reserve(id)
	p.wait(Never)
	w.pass(4*Second - 1)
	w.wakes()
	w.pass(1)
	w.wakes(p.hears(StatusDeadlineSoon))
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, StatusDeadlineSoon)
	p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Wait: true, Until: Never, Seq: p.waiter.Arm()}, StatusDeadlineSoon)
	other := p.put(9, 0, 5)
	p.reserve(other) // a ready job comes before the warning
	p.on(OpTouch, id, StatusOK)
	p.wait(w.now + Second)
	w.pass(Second)
	w.wakes(p.hears(StatusTimedOut))
}

// A wait and a margin in the past come in the order of their times, however
// late Expire runs.
func TestLateExpireKeepsTheOrderOfTime(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("a"), w.join("b")
	// An early timer that has lost its reason must not let the wait go first.
	gone := q.put(0, 1, 10)
	p.wait(w.now + 5*Second)
	q.on(OpDelete, gone, StatusOK)
	r := w.join("a")
	id := r.put(0, 4, 10)
	s := w.join("c")
	s.wait(w.now + 3*Second)
	w.pass(60 * Second)
	w.wakes(s.hears(StatusTimedOut), p.gets(id))
	// At the same moment the job comes before the end of the wait.
	id = r.put(0, 2, 10)
	p.on(OpReturn, 0, StatusOK)
	p.reserve(id - 1)
	p.on(OpDelete, id-1, StatusOK)
	p.wait(w.now + 2*Second)
	w.pass(2 * Second)
	w.wakes(p.gets(id))
}

func TestWaitersAreServedFirstComeFirstServed(t *testing.T) {
	w := newWorld(t)
	var queue []*peer
	for range 5 {
		p := w.join("default")
		p.wait(Never)
		queue = append(queue, p)
	}
	queue[1].on(OpCancel, 0, StatusOK)
	queue[3].on(OpClose, 0, StatusOK)
	q := w.join("default")
	q.put(9, 0, 10)
	q.put(1, 0, 10)
	q.put(5, 0, 10)
	w.wakes(queue[0].gets(1), queue[2].gets(2), queue[4].gets(3))
	q.put(0, 0, 10)
	w.wakes()
}

func TestWaitServedElsewhereIsSkipped(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	p.do(Op{Kind: OpWatch, Client: p.id, Name: []byte("other")}, StatusOK)
	seq := p.wait(Never)
	q.wait(Never)
	p.waiter.Claim(seq)
	id := q.put(5, 0, 10)
	w.wakes(q.gets(id))
	// The session of p goes on before its cancel has come.
	seq = p.wait(Never)
	p.waiter.Claim(seq)
	p.do(Op{Kind: OpWatch, Client: p.id, Name: []byte("third")}, StatusOK)
	p.wait(Never)
	id = q.put(5, 0, 10)
	w.wakes(p.gets(id))
}

func TestPauseHoldsBackReserveOnly(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	id := p.put(5, 0, 10)
	w.pause("default", 3)
	p.nothing()
	p.do(Op{Kind: OpReserveJob, Client: p.id, ID: id}, StatusReserved)
	p.release(id, 5, 0)
	q.wait(Never)
	w.pass(3*Second - 1)
	w.wakes()
	w.pass(1)
	w.wakes(q.gets(id))
	w.do(Op{Kind: OpPause, Name: []byte("no such"), Delay: 1}, StatusNotFound)
}

func TestPauseZeroServesWaiters(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	w.pause("default", 1000)
	id := p.put(5, 0, 10)
	p.wait(Never)
	w.wakes()
	w.pause("default", 0)
	w.wakes(p.gets(id))
	var s TubeStats
	w.do(Op{Kind: OpStatsTube, Name: []byte("default"), TubeStats: &s}, StatusOK)
	if s.Pauses != 2 || s.Pause != 0 || s.PauseLeft != 0 {
		t.Errorf("%+v", s)
	}
}

func TestLongerPauseReplacesShorterOne(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	id := p.put(5, 0, 10)
	w.pause("default", 1)
	w.pause("default", 5)
	w.pass(4 * Second)
	p.nothing()
	w.pass(Second)
	p.reserve(id)
}

func TestClosedClientsJobsAreReadyAgain(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	a, b, c := p.put(5, 0, 10), p.put(5, 0, 10), p.put(5, 0, 10)
	p.reserve(a)
	p.reserve(b)
	p.reserve(c)
	p.on(OpBury, c, StatusOK)
	q.wait(Never)
	p.do(Op{Kind: OpClose, Client: p.id, Tube: p.tube}, StatusOK)
	w.wakes(q.gets(a))
	w.isIn(b, Ready)
	w.isIn(c, Buried)
	if n := w.core.Counts(); n.Clients != 1 || n.Timeouts != 0 {
		t.Errorf("%+v", n)
	}
}

func TestReturnIsBounded(t *testing.T) {
	for _, kind := range []OpKind{OpReturn, OpClose} {
		w := newWorld(t)
		p := w.join("default")
		p.fill(boundedMax+5, 5, 0)
		for range boundedMax + 5 {
			var r Reply
			w.core.Apply(w.now, &Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, &r)
		}
		p.nothing()
		w.do(Op{Kind: kind, Client: p.id, Tube: p.tube}, StatusMore)
		if n := w.core.Counts(); n.Reserved != 5 || n.Ready != boundedMax {
			t.Errorf("%+v", n)
		}
		w.do(Op{Kind: kind, Client: p.id, Tube: p.tube}, StatusOK)
		want := uint64(1)
		if kind == OpClose {
			want = 0
		}
		if n := w.core.Counts(); n.Reserved != 0 || n.Ready != boundedMax+5 || n.Clients != want {
			t.Errorf("%+v", n)
		}
	}
}

func TestExpireIsBounded(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("held")
	p.fill(expireMax+500, 5, 9)
	q.fill(expireMax, 5, 0) // TTR 10 s
	w.now -= Second         // their deadlines are before the delays' ends
	for range expireMax {
		var r Reply
		w.core.Apply(w.now, &Op{Kind: OpReserve, Client: q.id, Bound: MaxKey}, &r)
	}
	w.pass(100 * Second)
	visits := 1
	for ; w.core.Next() <= w.now; visits++ {
		before := w.core.Counts().Ready
		w.pass(0)
		if n := w.core.Counts().Ready - before; n > expireMax {
			t.Fatalf("%d jobs in one visit", n)
		}
		if visits > 10 {
			t.Fatal("Expire makes no progress")
		}
	}
	if n := w.core.Counts(); n.Ready != 2*expireMax+500 || n.Reserved+n.Delayed != 0 || n.Timeouts != expireMax || visits < 3 {
		t.Errorf("%+v after %d visits", n, visits)
	}
}

// While Expire is behind, no figure is negative.
func TestTimeLeftIsNeverNegative(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	p.fill(2*expireMax, 5, 1)
	w.pause("default", 2)
	w.now += 5 * Second
	if s := w.stats(p.last); s.State != Delayed || s.TimeLeft != 0 {
		t.Errorf("%+v", s)
	}
	q := w.join("late")
	q.fill(2*expireMax, 5, 1)
	w.pause("late", 2)
	w.now += 5 * Second
	var s TubeStats
	w.do(Op{Kind: OpStatsTube, Name: []byte("late"), TubeStats: &s}, StatusOK)
	if s.PauseLeft < 0 {
		t.Errorf("%+v", s)
	}
}

func TestClockSteppingBackStandsStill(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	id := p.put(5, 5, 10)
	w.now -= 1000 * Second
	if s := w.stats(id); s.Age != 0 || s.TimeLeft != 5*Second {
		t.Errorf("%+v", s)
	}
	held := p.put(0, 0, 3)
	p.reserve(held)
	w.pass(1000 * Second)
	w.isIn(held, Reserved)
	w.pass(3 * Second)
	w.isIn(held, Ready)
	w.pass(2 * Second)
	w.isIn(id, Ready)
}

func TestReserveJobTakesFromAnyState(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	ready, delayed, buried := p.put(5, 0, 10), p.put(5, 100, 10), p.put(0, 0, 10)
	p.reserve(buried)
	p.on(OpBury, buried, StatusOK)
	waiter := new(Waiter)
	var client ClientID // of a connection that this core has not seen
	for _, id := range []JobID{ready, delayed, buried} {
		r := w.do(Op{Kind: OpReserveJob, Client: client, Waiter: waiter, ID: id}, StatusReserved)
		if r.Client == 0 || client != 0 && r.Client != client || r.ID != id {
			t.Fatalf("%+v", r)
		}
		client = r.Client
	}
	before := w.core.Counts().Clients
	w.do(Op{Kind: OpReserveJob, ID: 99, Waiter: waiter}, StatusNotFound)
	if n := w.core.Counts(); n.Reserved != 3 || n.Clients != before {
		t.Errorf("%+v", n)
	}
	w.do(Op{Kind: OpClose, Client: client}, StatusOK)
	w.isIn(delayed, Ready)
}

func TestPeekLooksWithoutTaking(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	for _, kind := range []OpKind{OpPeekReady, OpPeekDelayed, OpPeekBuried} {
		w.do(Op{Kind: kind, Tube: p.tube}, StatusNotFound)
	}
	p.put(5, 20, 10)
	p.put(5, 10, 10)
	p.put(7, 0, 10)
	p.put(6, 0, 10)
	p.put(0, 0, 10)
	p.reserve(5)
	p.on(OpBury, 5, StatusOK)
	for kind, want := range map[OpKind]JobID{OpPeekReady: 4, OpPeekDelayed: 2, OpPeekBuried: 5} {
		if r := w.do(Op{Kind: kind, Tube: p.tube}, StatusFound); r.ID != want || string(r.Body) != fmt.Sprintf("job %d", want) {
			t.Errorf("peek %d: %+v, want job %d", kind, r, want)
		}
	}
	w.do(Op{Kind: OpPeek, ID: 1}, StatusFound)
}

func TestDirectoryOrder(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	p.do(Op{Kind: OpWatch, Client: p.id, Name: []byte("b")}, StatusOK)
	p.do(Op{Kind: OpWatch, Client: p.id, Name: []byte("c")}, StatusOK)
	p.do(Op{Kind: OpWatch, Client: p.id, Name: []byte("d")}, StatusOK)
	// The new tube comes before the old one goes.
	q := w.join("x")
	q.do(Op{Kind: OpIgnore, Client: q.id, Tube: q.tube}, StatusOK)
	r := q.do(Op{Kind: OpUse, Name: []byte("y"), Tube: q.tube}, StatusOK)
	q.do(Op{Kind: OpUse, Name: []byte("y"), Tube: r.Tube}, StatusOK)
	// Closing empties the watch list from its front, the last taking each place.
	p.do(Op{Kind: OpClose, Client: p.id, Tube: p.tube}, StatusOK)
	want := []string{"+default", "+a", "+b", "+c", "+d", "+x", "+y", "-x", "-d", "-c", "-b", "-a"}
	if !slices.Equal(w.dir, want) {
		t.Errorf("heard %v, want %v", w.dir, want)
	}
}

func TestTubeLivesWhileItHoldsJobs(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	id := p.put(5, 0, 10)
	w.pause("a", 100)
	p.do(Op{Kind: OpClose, Client: p.id, Tube: p.tube}, StatusOK)
	w.isIn(id, Ready)
	w.do(Op{Kind: OpDelete, ID: id}, StatusOK)
	w.do(Op{Kind: OpStatsTube, Name: []byte("a"), TubeStats: new(TubeStats)}, StatusNotFound)
	if w.core.Next() != Never {
		t.Errorf("a timer is left")
	}
	q := w.join("a") // a new tube: neither paused nor counted
	id = q.put(5, 0, 10)
	q.reserve(id)
}

func TestMirrorFollowsTheBestJob(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	m := w.do(Op{Kind: OpMirror, Tube: p.tube}, StatusOK).Mirror
	is := func(want Key) {
		t.Helper()
		if got, ok := m.Load(); got != want || ok != (want != Key{}) {
			t.Fatalf("published %v, want %v", got, want)
		}
	}
	is(Key{})
	p.put(5, 0, 10)
	is(Key{5, 1})
	p.put(4, 0, 10)
	is(Key{4, 2})
	w.pause("default", 1)
	is(Key{})
	w.pass(Second)
	is(Key{4, 2})
	p.reserve(2)
	is(Key{5, 1})
	p.on(OpDelete, 1, StatusOK)
	is(Key{})
	p.release(2, 3, 0)
	is(Key{3, 2})
}

func TestLargeBodies(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	sizes := []int{0, 1, slab.MaxSize, slab.MaxSize + 1, 3 << 20}
	for _, own := range []bool{false, true} {
		for _, size := range sizes {
			body := bytes.Repeat([]byte{'x'}, size)
			p.last++
			w.do(Op{Kind: OpPut, Tube: p.tube, ID: p.last, TTR: 10, Body: body, OwnBody: own}, StatusOK)
			large := size > slab.MaxSize
			if !own || !large {
				clear(body) // what was not handed over is copied
			}
			r := p.reserve(p.last)
			if len(r.Body) != size || r.Large != large || bytes.Count(r.Body, []byte{'x'}) != size {
				t.Fatalf("own %v, %d bytes: got %d, large %v", own, size, len(r.Body), r.Large)
			}
			if own && large && &r.Body[0] != &body[0] {
				t.Error("a body handed over was copied")
			}
		}
	}
	for id := range p.last {
		p.on(OpDelete, id+1, StatusOK)
	}
	p.wait(Never)
	body := bytes.Repeat([]byte{'y'}, slab.MaxSize+1)
	w.do(Op{Kind: OpPut, Tube: p.tube, ID: 99, TTR: 10, Body: body, OwnBody: true}, StatusOK)
	woken := w.core.TakeWoken(nil)
	if len(woken) != 1 || &woken[0].Msg.Reply.Body[0] != &body[0] || !woken[0].Msg.Reply.Large {
		t.Error("a large body was not handed on as it is")
	}
}

func TestWokenBodyOutlivesTheJob(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	p.wait(Never)
	id := p.put(5, 0, 10)
	woken := w.core.TakeWoken(nil)
	p.on(OpDelete, id, StatusOK)
	p.last += 10
	p.put(5, 0, 10) // takes the slot
	if got := string(woken[0].Msg.Reply.Body); got != "job 1" {
		t.Errorf("body %q", got)
	}
	woken[0].Msg.Done()
}

func TestHotPathAllocatesNothing(t *testing.T) {
	b := newBench(t)
	for range 100 {
		b.cycle()
	}
	if n := testing.AllocsPerRun(1000, b.cycle); n != 0 {
		t.Errorf("%v allocations for put, reserve, delete", n)
	}
	if err := b.Check(); err != nil {
		t.Error(err)
	}
}

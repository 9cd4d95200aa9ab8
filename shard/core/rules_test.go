package core

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"polystalk/shard/slab"
)

func TestSmallestPriorityThenOldestIsReserved(t *testing.T) {
	p := newWorld(t).join("default")
	p.put(5, 0, 10)
	p.put(1<<32-1, 0, 10)
	p.put(0, 0, 10)
	p.put(5, 0, 10)
	for _, want := range []JobID{3, 1, 4, 2} {
		if r := p.reserve(want); string(r.Body) != fmt.Sprintf("job %d", want) || r.Large != nil {
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

func TestWaitIsWonOnce(t *testing.T) {
	var w Waiter
	if seq := w.Arm(); !w.Claim(seq) || w.Claim(seq) {
		t.Fatal("a wait must be won exactly once")
	}
}

// TestClosedWaitIsCalledAndNotServed: its place in the queue stays.
func TestClosedWaitIsCalledAndNotServed(t *testing.T) {
	w := newWorld(t)
	p, q, r := w.join("default"), w.join("default"), w.join("default")
	seq := p.waiter.ArmClosed()
	wait := Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Wait: true, Multi: true, Until: Never, Seq: seq}
	p.do(wait, StatusWaiting)
	q.wait(Never)
	id := r.put(5, 0, 10)
	w.wakes(q.gets(id))
	kept := r.put(5, 0, 10)
	w.wakes()
	p.isIn(kept, Ready)
	if p.waiter.Open(seq) {
		t.Fatal("it was called, and has been opened")
	}
	p.waiter.Reset(seq)
	q.reserve(kept)
	p.do(wait, StatusWaiting)
	if !p.waiter.Open(seq) {
		t.Fatal("it was not called, and has not been opened")
	}
	q.wait(Never)
	last := r.put(5, 0, 10)
	w.wakes(p.gets(last))
}

// TestClosedWaitHearsOfTimeLater: when it is over, or a job's margin begins, it is
// called too.
func TestClosedWaitHearsOfTimeLater(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	for _, want := range []Status{StatusTimedOut, StatusDeadlineSoon} {
		seq := p.waiter.ArmClosed()
		wait := Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Wait: true, Multi: true, Until: w.now + 2*Second, Seq: seq}
		p.do(wait, StatusWaiting)
		w.pass(2 * Second)
		w.wakes()
		if p.waiter.Open(seq) {
			t.Fatal("it was called, and has been opened")
		}
		p.do(wait, want)
		p.waiter.Take(seq)
		p.put(5, 0, 3)
		p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, StatusReserved)
	}
}

// A guard that says what it is told to.
type guard struct {
	stands bool
	asked  []Key
}

func (g *guard) Stands(k Key) bool {
	g.asked = append(g.asked, k)
	return g.stands
}

func TestGuardIsAskedBeforeAJobIsServed(t *testing.T) {
	p := newWorld(t).join("default")
	g := new(guard)
	p.waiter.Guard = g
	op := Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Multi: true}
	p.do(op, StatusTimedOut)
	id := p.put(7, 0, 1)
	p.do(op, StatusElsewhere)
	p.isIn(id, Ready)
	g.stands = true
	p.do(op, StatusReserved)
	p.do(op, StatusDeadlineSoon)
	g.stands = false
	p.do(op, StatusElsewhere)
	if want := []Key{{7, id}, {7, id}, MaxKey, MaxKey}; !slices.Equal(g.asked, want) {
		t.Errorf("asked for %v, want %v", g.asked, want)
	}
}

func TestOnlyTheHolderMayTouchReleaseBuryDelete(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	id := p.put(5, 0, 10)
	for _, kind := range []opKind{OpTouch, OpRelease, OpBury} {
		p.on(kind, id, StatusNotFound)
	}
	p.reserve(id)
	for _, kind := range []opKind{OpTouch, OpRelease, OpBury, OpDelete, OpReserveJob, OpKickJob} {
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
	if r.N != boundedMax || r.Kicked != kickDelayed {
		t.Fatalf("%+v", r)
	}
	// A job buried meanwhile must not change the choice.
	p.reserve(1)
	p.on(OpBury, 1, StatusOK)
	r = p.do(Op{Kind: OpKick, Tube: p.tube, N: boundedMax, Kicked: kickDelayed}, StatusOK)
	if r.N != boundedMax {
		t.Errorf("kicked %d", r.N)
	}
	r = p.do(Op{Kind: OpKick, Tube: p.tube, N: 1 << 31, Kicked: kickDelayed}, StatusOK)
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
	if r.N != boundedMax || r.Kicked != kickBuried {
		t.Fatalf("%+v", r)
	}
	p.on(OpDelete, boundedMax+1, StatusOK)
	r = p.do(Op{Kind: OpKick, Tube: p.tube, N: 5, Kicked: kickBuried}, StatusOK)
	if r.N != 0 {
		t.Errorf("kicked %d", r.N)
	}
	p.isIn(delayed, Delayed)
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
	for _, kind := range []opKind{OpReturn, OpClose} {
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
	for _, kind := range []opKind{OpPeekReady, OpPeekDelayed, OpPeekBuried} {
		w.do(Op{Kind: kind, Tube: p.tube}, StatusNotFound)
	}
	p.put(5, 20, 10)
	p.put(5, 10, 10)
	p.put(7, 0, 10)
	p.put(6, 0, 10)
	p.put(0, 0, 10)
	p.reserve(5)
	p.on(OpBury, 5, StatusOK)
	for kind, want := range map[opKind]JobID{OpPeekReady: 4, OpPeekDelayed: 2, OpPeekBuried: 5} {
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
	w.do(Op{Kind: OpStatsTube, Name: []byte("a"), Figures: Figures{TubeStats: new(TubeStats)}}, StatusNotFound)
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
	put := func(size int) Large {
		body := bytes.Repeat([]byte{'x'}, size)
		p.last++
		op := Op{Kind: OpPut, Tube: p.tube, ID: p.last, TTR: 10}
		if size > slab.MaxSize {
			op.Large = Large{body[:60_000:60_000], body[60_000:]}
		} else {
			op.Body = body
			defer clear(body) // it is copied
		}
		w.do(op, StatusOK)
		return op.Large
	}
	for _, size := range []int{0, 1, slab.MaxSize, slab.MaxSize + 1, 3 << 20} {
		large := put(size)
		r := p.reserve(p.last)
		if r.Large.Len()+len(r.Body) != size || bytes.Count(r.Large.Append(r.Body), []byte{'x'}) != size {
			t.Fatalf("%d bytes: got %d and %d", size, len(r.Body), r.Large.Len())
		}
		if (r.Large != nil) != (large != nil) || large != nil && &r.Large[1][0] != &large[1][0] {
			t.Errorf("%d bytes: a large body is not what was handed over", size)
		}
	}
	for id := range p.last {
		p.on(OpDelete, id+1, StatusOK)
	}
	p.wait(Never)
	large := put(slab.MaxSize + 1)
	woken := w.core.TakeWoken(nil)
	if len(woken) != 1 || &woken[0].Msg.Reply.Large[0][0] != &large[0][0] {
		t.Error("a large body was not handed on as it is")
	}
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

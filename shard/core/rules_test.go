package core

import (
	"slices"
	"testing"
	"unsafe"

	"polystalk/shard/slab"
	"polystalk/shard/stats"
)

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

// TestKickNeverTakesBuriedAndDelayed: a visit is bounded. When others empty the buried list
// between two visits of one kick, the second does not turn to delayed jobs.
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

// TestLargeBodyIsHandedOn as it is, in its pieces, to a client that reserves it and to one that waits.
func TestLargeBodyIsHandedOn(t *testing.T) {
	w := newWorld(t)
	p := w.join("default")
	put := func() *byte {
		body := make([]byte, slab.MaxSize+1)
		p.last++
		w.do(Op{Kind: OpPut, Tube: p.tube, ID: p.last, TTR: 10, Large: Large{body[:60_000:60_000], body[60_000:]}}, StatusOK)
		return &body[60_000]
	}
	second := put()
	if r := p.reserve(p.last); &r.Large[1][0] != second {
		t.Error("it is copied for a client that reserves it")
	}
	p.wait(Never)
	second = put()
	if woken := w.core.TakeWoken(nil); len(woken) != 1 || &woken[0].Msg.Reply.Large[1][0] != second {
		t.Error("it is copied for a client that waits")
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
	w.do(Op{Kind: OpStatsTube, Name: []byte("late"), Figures: Figures{TubeStats: &s}}, StatusOK)
	if s.PauseLeft < 0 {
		t.Errorf("%+v", s)
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

// What never comes does not come because the machine was suspended meanwhile: the moment of a
// length of time awake that goes beyond the end of time is Never, and not before all others.
func TestNeverAwakeIsNever(t *testing.T) {
	const slept = 5 * Second
	c := New(nil)
	defer c.Close()
	c.Slept(slept)
	for _, tt := range []struct{ awake, want Time }{
		{0, slept}, {Second, 6 * Second},
		{Never - slept - 1, Never - 1}, {Never - slept, Never}, {Never - slept + 1, Never}, {Never - 1, Never}, {Never, Never},
	} {
		if got := c.whenAwake(tt.awake); got != tt.want {
			t.Errorf("%d awake is at %d, want %d", tt.awake, got, tt.want)
		}
	}
}

// A reservation that has ended leaves its timer behind. When that fires after the machine
// was suspended, nothing is due any more.
func TestTimerOfNothingAfterSleep(t *testing.T) {
	p := newWorld(t).join("default")
	id := p.put(5, 0, 10)
	p.reserve(id)
	p.on(OpDelete, id, StatusOK)
	p.core.Slept(5 * Second)
	p.pass(20 * Second)
	if next := p.core.Next(); next != Never {
		t.Errorf("the next timer is at %d, and nothing waits", next)
	}
	p.wait(Never - Second) // ends so late that it does not
	p.pass(20 * Second)
	p.wakes()
	if next := p.core.Next(); next != Never {
		t.Errorf("the next timer is at %d, for a wait without an end", next)
	}
}

// TestKeptMessageOutlivesTheBuffer: the caller's buffer is used again as soon as Keep has returned. A
// large body never changes, so it is not copied.
func TestKeptMessageOutlivesTheBuffer(t *testing.T) {
	buf, large := []byte("tube-namebody bytes"), []byte("large")
	for range 3 { // the buffers are pooled
		var m Message
		m.Op = Op{Kind: OpPut, Name: buf[:9], Body: buf[9:], Large: Large{large}}
		m.Keep()
		copy(buf, "###################")
		if string(m.Op.Name) != "tube-name" || string(m.Op.Body) != "body bytes" || &m.Op.Large[0][0] != &large[0] {
			t.Fatalf("kept %q and %q, or a copy of %q", m.Op.Name, m.Op.Body, m.Op.Large)
		}
		if m.Op.Name = append(m.Op.Name, '!'); string(m.Op.Body) != "body bytes" {
			t.Fatalf("the name grew into the body: %q", m.Op.Body)
		}
		copy(buf, "tube-namebody bytes")
		if m.Done(); m.Op.Body != nil || m.Op.Name != nil {
			t.Fatalf("%+v is left", m.Op)
		}
	}
}

func TestCountsAddUp(t *testing.T) {
	a := Counts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	a.Add(&Counts{10, 20, 30, 40, 50, 60, 70, 80, 90, 100})
	if want := (Counts{11, 22, 33, 44, 55, 66, 77, 88, 99, 110}); a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
}

// TestHoldersAreAskedInParts: a visit looks up a bounded number of clients. The model judges what it
// says of each.
func TestHoldersAreAskedInParts(t *testing.T) {
	w := newWorld(t)
	x := &OperatorOp{Holders: make([]Holder, 2*holdersMax+5)}
	for i := range x.Holders {
		r := new(Reply)
		w.core.Apply(w.now, &Op{Kind: OpJoin, Name: []byte("a"), Conn: 7}, r)
		x.Holders[i] = Holder{Client: r.Client, Conn: 7}
	}
	for visit, want := range []Status{StatusMore, StatusMore, StatusOK} {
		w.do(Op{Kind: opAskHolders, Operator: x}, want)
		for i, h := range x.Holders {
			if h.Known != (i < (visit+1)*holdersMax) {
				t.Fatalf("visit %d: holder %d is known: %v", visit, i, h.Known)
			}
		}
	}
}

func TestLargeBodiesAreEqualInWhateverPieces(t *testing.T) {
	a := Large{[]byte("abc"), nil, []byte("de")}
	for _, c := range []struct {
		body Large
		want bool
	}{
		{Large{[]byte("abcde")}, true},
		{Large{[]byte("a"), []byte("bcd"), []byte("e"), {}}, true},
		{Large{[]byte("abcd")}, false},
		{Large{[]byte("abcdef")}, false},
		{Large{[]byte("ab"), []byte("xde")}, false},
		{nil, false},
	} {
		if got := a.equal(c.body); got != c.want {
			t.Errorf("%q is %q: %v", a, c.body, got)
		}
		if got := c.body.equal(a); got != c.want {
			t.Errorf("%q is %q: %v", c.body, a, got)
		}
	}
}

// flowIn is the flow of a tube.
func (w *world) flowIn(name string) (f Flow) {
	w.t.Helper()
	x := new(OperatorOp)
	w.do(Op{Kind: opFlow, Name: []byte(name), Operator: x}, StatusOK)
	return x.Flow
}

// TestAgeOutlivesTheProcess: a job is as old after a restart, and a delay that ended
// meanwhile ended when it did.
func TestAgeOutlivesTheProcess(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	p.put(5, 10, 100)
	released := p.put(5, 0, 100)
	p.reserve(released)
	w.pass(4 * Second)
	p.release(released, 5, 0)
	w.pass(3 * Second)
	w.again(s)
	if f := w.flowIn("a"); f.Oldest != 3*Second {
		t.Errorf("the oldest is %d s old, want 3", f.Oldest/Second)
	}
	w.now += 20 * Second
	w.again(s)
	p = w.join("a")
	p.on(OpDelete, released, StatusOK)
	if f := w.flowIn("a"); f.Oldest != 17*Second {
		t.Errorf("the oldest is %d s old, want 17", f.Oldest/Second)
	}
}

// TestFlowFootprint: a flow costs nothing a job, and a used tube at most 360 bytes more: the
// allocator's classes are 288 instead of 256, and 320.
func TestFlowFootprint(t *testing.T) {
	if job, tube, flow := unsafe.Sizeof(Job{}), unsafe.Sizeof(tube{}), unsafe.Sizeof(stats.Flow{}); job != 96 || tube > 288 || flow > 320 {
		t.Errorf("a job has %d bytes, a tube %d, its flow %d", job, tube, flow)
	}
}

// TestNothingSharesCacheLines: what different cores of the machine write at every operation are
// whole pairs of lines, and of a size that the allocator has a class for, so it aligns them. With
// less, two goroutines on shards of their own were slower than one.
func TestNothingSharesCacheLines(t *testing.T) {
	for name, size := range map[string]uintptr{
		"Core": unsafe.Sizeof(Core{}),
		"Pool": unsafe.Sizeof(slab.Pool[Job]{}),
		"sums": unsafe.Sizeof(coreSums{}),
	} {
		if size != 256 && size != 512 && size != 640 {
			t.Errorf("%s has %d bytes, want 256, 512 or 640: change the padding at its end", name, size)
		}
	}
}

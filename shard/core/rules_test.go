package core

import (
	"bytes"
	"slices"
	"testing"

	"polystalk/shard/slab"
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

package core

import (
	"slices"
	"testing"

	"polystalk/shard/record"
)

// TestEpochEndsBodies: a body that is in part there when another server goes on never becomes
// whole, whatever it writes about the same job; one that is whole by then, or begins later, is
// there. An older state of a job stays that was to be copied.
func TestEpochEndsBodies(t *testing.T) {
	c := New(nil)
	defer c.Close()
	p := c.Replay()
	apply := func(b []byte) {
		t.Helper()
		var r record.Record
		if _, err := record.Parse(&r, b); err != nil {
			t.Fatal(err)
		}
		if err := p.Apply(&r); err != nil {
			t.Fatal(err)
		}
	}
	slot := SlotOf([]byte("a"))
	begin := func(id uint64, size int) {
		apply((&record.Job{ID: id, Tube: []byte("a"), State: record.Ready}).AppendPut(nil, slot, size))
	}
	chunk := func(id uint64, part string) {
		apply(append(record.AppendChunkHead(nil, slot, id, len(part)), part...))
	}
	epoch := (&record.Epoch{Node: 1, Time: 5, Format: record.Format}).Append(nil)

	begin(1, 4)
	chunk(1, "who")
	begin(2, 4)
	chunk(2, "part")
	apply((&record.Job{ID: 3, Tube: []byte("a"), State: record.Ready, Body: []byte("old")}).AppendPut(nil, slot, 0))
	begin(3, 4)
	chunk(3, "ol")
	apply(epoch)
	chunk(1, "le")
	chunk(3, "d.")
	begin(4, 2)
	chunk(4, "ok")
	p.Done(1)

	got := map[JobID]bool{}
	c.EachID(func(id JobID) { got[id] = true })
	if want := (map[JobID]bool{2: true, 3: true, 4: true}); len(got) != len(want) || !got[2] || !got[3] || !got[4] {
		t.Errorf("the jobs are %v, want %v", got, want)
	}
	var r Reply
	c.Apply(1, &Op{Kind: OpPeek, ID: 3}, &r)
	if string(r.Body) != "old" {
		t.Errorf("job 3 is %q, status %d", r.Body, r.Status)
	}
}

// TestFloorTellsTheHighestID: it is known though no job with it is told of any more.
func TestFloorTellsTheHighestID(t *testing.T) {
	c := New(nil)
	defer c.Close()
	var b record.Buffer
	c.RecordTo(&b)
	p := c.Replay()
	if err := p.Apply(&record.Record{Kind: record.KindFloor, Floor: &record.Floor{Index: 9, Globals: record.Globals{HighID: 77}}}); err != nil {
		t.Fatal(err)
	}
	if p.Done(1); b.HighID != 77 {
		t.Errorf("the highest id is %d, want 77", b.HighID)
	}
}

// TestBuriedBeforeTheClockWasSetBack: jobs that were buried later than now, as the journal tells,
// count as buried before the process began; their order goes on, in the next journal as well.
func TestBuriedBeforeTheClockWasSetBack(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	bury := func() (id JobID) {
		p := w.join("a")
		id = p.put(1, 0, 10)
		p.reserve(id)
		p.do(Op{Kind: OpBury, Client: p.id, ID: id, Pri: 1}, StatusOK)
		return id
	}
	seen := func(by Time) (ids []JobID) {
		x := &OperatorOp{Filter: Filter{EnteredBy: by}}
		op := new(Op)
		op.ListArrivals([]byte("a"), Buried, x)
		w.do(*op, StatusOK)
		for _, row := range x.Jobs {
			ids = append(ids, row.ID)
		}
		return ids
	}
	var want []JobID
	for round := range 4 {
		want = append(want, bury(), bury())
		w.pass(Second)
		want = append(want, bury())
		w.now -= 300 * Second
		w.again(s)
		s.core, s.buf.Data, s.buf.Refs = w.core, nil, nil
		w.core.RecordTo(&s.buf)
		if ids := seen(w.now); !slices.Equal(ids, want) {
			t.Fatalf("round %d: %d were buried by now, want %d", round, ids, want)
		}
		by := w.now
		w.pass(Second)
		want = append(want, bury())
		if ids := seen(by); !slices.Equal(ids, want[:len(want)-1]) {
			t.Fatalf("round %d: %d were buried by then, want all but the last of %d", round, ids, want)
		}
	}
	x := &OperatorOp{Filter: Filter{EnteredBy: w.now}}
	if n := w.do(Op{Kind: opFlush, Name: []byte("a"), N: uint32(StatesOf(Buried)), Operator: x}, StatusOK).N; int(n) != len(want) {
		t.Errorf("%d jobs are flushed of %d", n, len(want))
	}
}

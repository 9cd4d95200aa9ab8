package core

import (
	"slices"
	"testing"
)

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

package core

import "testing"

// TestHoldersAreAskedInParts: a visit looks at a bounded number, and tells of each once; of
// one that has gone, or has another's handle by now, nothing.
func TestHoldersAreAskedInParts(t *testing.T) {
	w := newWorld(t)
	const clients = 2*holdersMax + 5
	x := new(OperatorOp)
	for i := range uint64(clients) {
		r := new(Reply)
		w.core.Apply(w.now, &Op{Kind: OpJoin, Name: []byte("a"), Conn: i + 1}, r)
		x.Holders = append(x.Holders, Holder{Client: r.Client, Conn: i + 1})
	}
	w.core.Apply(w.now, &Op{Kind: OpPut, Tube: 1, ID: 1, TTR: 10}, new(Reply))
	last := x.Holders[clients-1]
	w.core.Apply(w.now, &Op{Kind: OpReserveJob, ID: 1, Client: last.Client}, new(Reply))
	gone := x.Holders[3]
	w.core.Apply(w.now, &Op{Kind: OpClose, Client: gone.Client}, new(Reply))
	w.core.Apply(w.now, &Op{Kind: OpJoin, Name: []byte("a"), Conn: clients + 1}, new(Reply)) // has its handle
	w.now += 7 * Second

	visits := 1
	for op, r := new(Op), new(Reply); ; visits++ {
		op.AskHolders(x)
		w.core.Apply(w.now, op, r)
		if r.Status != StatusMore {
			break
		}
	}
	if visits != 3 {
		t.Errorf("%d visits", visits)
	}
	for i, h := range x.Holders {
		want := Holder{Client: h.Client, Conn: uint64(i) + 1, Known: i != 3}
		if i == clients-1 {
			want.Held, want.Oldest = 1, 7*Second
		}
		if h != want {
			t.Errorf("holder %d: %+v, want %+v", i, h, want)
		}
	}
}

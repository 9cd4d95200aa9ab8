package cluster

import (
	"errors"
	"slices"
	"testing"
)

// A proposed change may still be committed, so its error is uncertain. The error of a node that has
// ended before is not.
func TestChangeIsUncertainOnceProposed(t *testing.T) {
	_, all := newNet(t, 1)
	l := leader(t, all)
	if err := l.node.Change(t.Context(), Change{Add, Member{ID: 6, Name: "n6", Addr: "x"}}); err != nil {
		t.Fatal(err)
	}
	if v, _ := l.node.View(); v.Members.Find(6) == nil {
		t.Errorf("after a change the members are %+v", v.Members)
	}
	if err := l.node.Change(t.Context(), Change{Remove, Member{ID: 1}}); !errors.Is(err, ErrSelf) {
		t.Errorf("a leader removes itself: %v", err)
	}
	hang, before := l.log.set(&l.log.hang), l.log.Last() // no entry is committed
	defer close(hang)                                    // the node is stopped after that
	add := Change{Add, Member{ID: 7, Name: "n7", Addr: "y"}}
	asked := make(chan error)
	go func() { asked <- l.node.Change(t.Context(), add) }()
	eventually(t, func() bool { return l.log.Last() > before })
	l.node.Halt()
	if err := <-asked; !errors.Is(err, ErrUncertain) || !errors.Is(err, ErrEnded) {
		t.Errorf("a change that was proposed: %v", err)
	}
	if err := l.node.Change(t.Context(), add); errors.Is(err, ErrUncertain) || !errors.Is(err, ErrEnded) {
		t.Errorf("a change that was not: %v", err)
	}
}

// TestTransferToAFullNodeMovesNoLead: a voter that cannot append missing entries does not take over,
// and neither does a third one. The leader keeps its lease.
func TestTransferToAFullNodeMovesNoLead(t *testing.T) {
	_, all := newNet(t, 3)
	l := leader(t, all)
	i := slices.IndexFunc(all, func(s *testNode) bool { return s != l })
	full := all[i].log.set(&all[i].log.full)
	defer close(full) // the node is stopped after that
	if err := l.do(1); err != nil {
		t.Fatal(err)
	}
	eventually(t, l.isAcked)
	before, _ := l.node.View()
	if err := l.node.Transfer(t.Context(), all[i].id); !errors.Is(err, ErrBehind) {
		t.Fatalf("a transfer to a node that is full: %v", err)
	}
	eventually(t, l.node.Leased)
	if v, _ := l.node.View(); v.Leader != l.id || v.Term != before.Term {
		t.Fatalf("the view was %+v and is %+v", before, v)
	}
}

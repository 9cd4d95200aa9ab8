package cluster

import (
	"errors"
	"testing"
)

// TestChangeIsUncertainOnceProposed: who has asked for a change that may be committed yet is not
// told that nothing was done; whoever asks a node that has ended already is.
func TestChangeIsUncertainOnceProposed(t *testing.T) {
	_, all := newNet(t, 1)
	l := leader(t, all)
	hang := make(chan struct{})
	defer close(hang) // the node is stopped after that
	l.log.mu.Lock()
	l.log.hang = hang // so that nothing is committed
	before := l.log.memLog.Last()
	l.log.mu.Unlock()
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

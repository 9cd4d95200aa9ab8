package member

import (
	"testing"

	"polystalk/router/cluster"
)

// TestOldViewIsNotToldLast: where the node tells of a view while another goroutine does, what is
// told last is what the node knows.
func TestOldViewIsNotToldLast(t *testing.T) {
	known := cluster.View{Leader: 1}
	var told cluster.View
	var s views
	s.tell = func(v cluster.View) { told = v }
	if s.hear(known); told != known {
		t.Errorf("before there was a node to ask: %+v", told)
	}
	known.Leader = 0
	if s.begin(func() (cluster.View, <-chan struct{}) { return known, nil }); told != known {
		t.Errorf("what was known at the beginning: %+v", told)
	}
	late := known
	known.Leader, known.Term = 2, 3
	if s.hear(late); told != known {
		t.Errorf("a view that is told late: %+v", told)
	}
}

package cluster

import "testing"

// TestCommitsAreTimed: each entry counts once, when it is committed, also after giveBack.
func TestCommitsAreTimed(t *testing.T) {
	p := NewProposals()
	told := uint64(0)
	p.attach(func(n uint64) error { told = n; return nil }, func() {}, func() bool { return true })
	for n := uint64(1); n <= 2; n++ {
		if err := p.Propose([]byte("x"), n); err != nil {
			t.Fatal(err)
		}
		if err := p.End(n); err != nil {
			t.Fatal(err)
		}
	}
	p.giveBack(p.take())
	list := p.take()
	p.accepted(list, 7)
	for i := range uint64(3) {
		if err := p.committed(6 + i); err != nil {
			t.Fatal(err)
		}
		counted := uint64(0)
		for _, n := range p.Times().N {
			counted += n
		}
		if counted != i || told != i {
			t.Errorf("up to entry %d: %d were counted, and commit %d is acknowledged, want %d", 6+i, counted, told, i)
		}
	}
	if len(p.begun) != 0 {
		t.Errorf("it waits for %d more", len(p.begun))
	}
}

// TestRoomForProposals: at most two small entries are outstanding. Only their bytes limit full ones,
// before, between and after the small ones.
func TestRoomForProposals(t *testing.T) {
	p := NewProposals()
	p.byHand = true
	p.attach(func(uint64) error { return nil }, func() {}, func() bool { return true })
	n := uint64(0)
	propose := func(size int, room bool) {
		t.Helper()
		n++
		if err := p.Propose(make([]byte, size), n); err != nil {
			t.Fatal(err)
		}
		if p.Room() != room {
			t.Errorf("after proposal %d, of %d bytes, there is room: %v, want %v", n, size, !room, room)
		}
	}
	propose(10, true)
	propose(fullSize, true)
	propose(fullSize, true)
	propose(10, false)
	p.accepted(p.take(), 1)
	if err := p.committed(1); err != nil || !p.Room() {
		t.Errorf("%v; the first small one is committed, and there is no room", err)
	}
	if err := p.committed(4); err != nil {
		t.Error(err)
	}
	first := n + 1
	for range proposedSize/fullSize - 1 {
		propose(fullSize, true)
	}
	propose(2*fullSize, false)
	p.accepted(p.take(), first)
	if err := p.committed(n); err != nil || !p.Room() || p.small != 0 || p.bytes != 0 {
		t.Errorf("%v; all are committed, and %d small ones of %d bytes are left", err, p.small, p.bytes)
	}
}

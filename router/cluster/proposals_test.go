package cluster

import "testing"

// TestCommitsAreTimed: each entry once, when it is committed, also where it was put back before.
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

package session

import (
	"testing"

	"polystalk/shard/core"
)

func TestCapsFallWhileHalfOfTheBoundIsUsed(t *testing.T) {
	now := core.Time(1)
	h := newTestHost(&now)
	s := &Session{loop: NewLoop(h, func() {})}
	h.Account.SetBound(1000)
	for _, step := range []struct{ add, held, unsent int }{
		{500, HeldMax, UnsentMax}, {1, heldLeast, unsentLeast}, {9999, heldLeast, unsentLeast}, {-10000, HeldMax, UnsentMax},
	} {
		h.Account.Add(step.add)
		if held, unsent := s.heldCap(), s.unsentCap(); held != step.held || unsent != step.unsent {
			t.Errorf("%d bytes are used of 1000: caps of %d and %d bytes", h.Account.Sum(), held, unsent)
		}
	}
}

// TestHighIsTold: High receives once for any number of additions above the bound, but not below
// the bound, and not when memory is released.
func TestHighIsTold(t *testing.T) {
	a := newAccount(1000)
	told := func(want bool) {
		t.Helper()
		select {
		case <-a.High():
			if !want {
				t.Errorf("notified of %d bytes", a.Sum())
			}
		default:
			if want {
				t.Errorf("not notified of %d bytes", a.Sum())
			}
		}
	}
	a.Add(1000)
	told(false)
	a.Add(1)
	a.Add(100)
	told(true)
	told(false)
	a.Add(-50)
	told(false)
}

// TestRetainedPartsCountOnce: a part with many readers counts once, and only while no job has it.
func TestRetainedPartsCountOnce(t *testing.T) {
	a := newAccount(1 << 30)
	p, alone := make([]byte, 1000), make([]byte, 2000)
	wants := func(sum int64, parts int) {
		t.Helper()
		if a.Sum() != sum || int(a.parts.Load()) != parts {
			t.Errorf("%d bytes in %d parts, want %d in %d", a.Sum(), a.parts.Load(), sum, parts)
		}
	}
	a.Orphan(p) // nobody reads it
	wants(0, 0)
	a.Retain(p, false)
	a.Retain(p, false)
	wants(0, 1)
	a.Retain(alone, true)
	a.Retain(alone, true)
	wants(2000, 2)
	a.Orphan(p)
	a.Orphan(p)
	wants(3000, 2)
	a.Release(p)
	wants(3000, 2)
	a.Release(p)
	wants(2000, 1)
	a.Release(alone)
	a.Release(alone)
	wants(0, 0)
	defer func() {
		if recover() == nil {
			t.Error("no panic at a release too many")
		}
	}()
	a.Release(p)
}

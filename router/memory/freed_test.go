package memory

import "testing"

// TestFreedBodiesAreCollected once no more come, or when they are very many; small ones
// wait for the collector.
func TestFreedBodiesAreCollected(t *testing.T) {
	f := NewFreed()
	look := func(before int64, want bool) (now int64) {
		t.Helper()
		now = f.bytes.Load()
		if got := f.due(before); got != want {
			t.Errorf("%d bytes, %d before: due %v", now, before, got)
		}
		return now
	}
	f.Add(freedMin - 1)
	look(freedMin-1, false)
	if len(f.enough) != 0 {
		t.Error("little is enough")
	}
	f.Add(100)
	if len(f.enough) != 1 {
		t.Error("much is not enough")
	}
	before := look(0, false)
	f.Add(freedMin)
	before = look(before, false) // more have come
	look(before, true)
	look(0, false)
	f.Add(freedMost)
	look(0, true)
	if f.bytes.Load() != 0 {
		t.Error("counted twice")
	}
}

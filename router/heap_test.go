package router

import "testing"

func TestFreedBodiesAreCollectedWhenNoMoreComeOrWhenTheyAreMany(t *testing.T) {
	f := newFreedBodies()
	look := func(before int64, want bool) (now int64) {
		t.Helper()
		now = f.bytes.Load()
		if got := f.due(before); got != want {
			t.Errorf("%d bytes, %d before: due %v", now, before, got)
		}
		return now
	}
	f.add(freedMin - 1)
	look(freedMin-1, false)
	if len(f.enough) != 0 {
		t.Error("little is enough")
	}
	f.add(100)
	if len(f.enough) != 1 {
		t.Error("much is not enough")
	}
	before := look(0, false)
	f.add(freedMin)
	before = look(before, false) // more were freed
	look(before, true)
	look(0, false)
	f.add(freedMost)
	look(0, true)
	if f.bytes.Load() != 0 {
		t.Error("counted twice")
	}
}

func TestHeapIsCollectedOnceAtRest(t *testing.T) {
	const mb = 1 << 20
	var w heapWatch
	for i, look := range []struct {
		objects, free uint64
		due           bool
		left          uint64 // bytes of objects after the collection
	}{
		{2 * mb, 2 * mb, false, 0}, {2 * mb, 2 * mb, false, 0}, // small
		{50 * mb, 1 * mb, false, 0}, {100 * mb, 1 * mb, false, 0}, // growing
		{100 * mb, 1 * mb, true, 90 * mb}, // at rest: once
		{90 * mb, 5 * mb, false, 0}, {90*mb + 1000, 5 * mb, false, 0},
		{95 * mb, 1 * mb, false, 0}, {95 * mb, 1 * mb, true, 91 * mb},
		{91 * mb, 1 * mb, false, 0},
		{5 * mb, 80 * mb, false, 0}, // it has shrunk, and may shrink further
		{5 * mb, 80 * mb, true, 4 * mb},
		{4 * mb, 1 * mb, false, 0},
	} {
		if got := w.due(look.objects, look.free); got != look.due {
			t.Fatalf("look %d: %v", i, got)
		}
		if look.due {
			w.collected(look.left)
		}
	}
}

package router

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestFreedBodiesAreCollectedWhenNoMoreComeOrWhenTheyAreMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		little := newFreedBodies()
		if little.add(freedMin - 1); len(little.enough) != 0 {
			t.Error("little is enough")
		}
		for _, tt := range []struct{ step, times, want int }{{freedMin, 10, 10}, {freedMost / 4, 10, 3}} {
			f, start := newFreedBodies(), time.Now()
			go func() {
				for range tt.times {
					f.add(tt.step)
					time.Sleep(freedQuiet * 3 / 4)
				}
			}()
			<-f.enough
			f.settle()
			if took := time.Since(start) / freedQuiet; took < time.Duration(tt.want)*3/4 || took > time.Duration(tt.want)+1 {
				t.Errorf("%d bytes at a time: settled after %d quiet times", tt.step, took)
			}
			time.Sleep(time.Minute) // until all are freed
		}
	})
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

package router

import (
	"testing"

	"polystalk/shard"
)

func TestDrainWatchSpeaksOncePerHalving(t *testing.T) {
	var w drainWatch
	for i, step := range []struct {
		jobs uint64
		fell bool
	}{
		{0, false}, {reclaimMin - 1, false}, {0, false}, // never many
		{4 * reclaimMin, false}, {2*reclaimMin + 1, false},
		{2 * reclaimMin, true}, {2*reclaimMin - 1, false}, {reclaimMin, true},
		{reclaimMin/2 + 1, false}, {0, true}, {0, false},
		{8 * reclaimMin, false}, {10, true}, {10, false},
	} {
		if got := w.fell(step.jobs); got != step.fell {
			t.Errorf("step %d, %d jobs: %v", i, step.jobs, got)
		}
	}
}

func TestJobsAreCountedOverAllShards(t *testing.T) {
	f := newFixture(t, Config{Shards: 4})
	c := f.open()
	c.send("use a\r\nput 0 0 60 1\r\nx\r\nuse b\r\nput 0 9 60 1\r\nx\r\nuse c\r\nput 0 0 60 1\r\nx\r\nreserve-job 3\r\nput 0 0 60 1\r\nx\r\nreserve-job 4\r\nbury 4 0\r\n")
	b := &f.other
	if n, ok := f.d.srv.jobs(b); !ok || n != 4 {
		t.Errorf("%d jobs, %v, want 4", n, ok)
	}
	sh := f.d.Shards()[2]
	sh.Own(b)
	if _, ok := f.d.srv.jobs(&shard.Batch{Home: visitor{}}); ok {
		t.Error("counted a shard that somebody else owns")
	}
	sh.Release(b)
}

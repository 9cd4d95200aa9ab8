package router

import (
	"strings"
	"testing"
)

// TestFreedBodiesAreCollected once no more come, or when they are very many; small ones
// wait for the collector.
func TestFreedBodiesAreCollected(t *testing.T) {
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
	if len(f.told) != 0 {
		t.Error("told of little")
	}
	f.add(100)
	if len(f.told) != 1 {
		t.Error("not told")
	}
	before := look(0, false)
	f.add(freedMin)
	before = look(before, false) // more have come
	look(before, true)
	look(0, false)
	f.add(freedMost)
	look(0, true)
	if f.bytes.Load() != 0 {
		t.Error("counted twice")
	}
}

// TestDeletedBodiesAreGivenBack: each large body that is deleted counts, whichever
// protocol it came by, and no other.
func TestDeletedBodiesAreGivenBack(t *testing.T) {
	f := newFixture(t, Config{Shards: 2, MaxJobSize: 1 << 20})
	c := f.open()
	c.says("put 0 0 60 200000\n"+strings.Repeat("x", 200_000)+"\nput 0 0 60 1000\n"+strings.Repeat("x", 1000)+"\n",
		"INSERTED 1\nINSERTED 2\n")
	c.says("delete 2\n", "DELETED\n")
	if n := f.d.srv.freed.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted of bodies that are small or there", n)
	}
	c.says("delete 1\n", "DELETED\n")
	if n := f.d.srv.freed.bytes.Load(); n < 200_000 || n > 300_000 {
		t.Errorf("%d bytes are counted of a body of 200,000 that was deleted", n)
	}
}

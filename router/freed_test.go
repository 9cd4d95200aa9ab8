package router_test

import (
	"strings"
	"testing"

	"polystalk/router"
)

// TestDeletedBodiesAreGivenBack: each large body that is deleted counts, whichever
// protocol it came by, and no other.
func TestDeletedBodiesAreGivenBack(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 2, MaxJobSize: 1 << 20})
	c := f.open()
	c.says("put 0 0 60 200000\n"+strings.Repeat("x", 200_000)+"\nput 0 0 60 1000\n"+strings.Repeat("x", 1000)+"\n",
		"INSERTED 1\nINSERTED 2\n")
	c.says("delete 2\n", "DELETED\n")
	if n := f.d.Server.FreedBytes(); n != 0 {
		t.Errorf("%d bytes are counted of bodies that are small or there", n)
	}
	c.says("delete 1\n", "DELETED\n")
	if n := f.d.Server.FreedBytes(); n < 200_000 || n > 300_000 {
		t.Errorf("%d bytes are counted of a body of 200,000 that was deleted", n)
	}
}

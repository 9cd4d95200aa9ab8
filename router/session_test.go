package router_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"polystalk/router"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// TestHotPathAllocatesNothing runs put, reserve and delete through a session,
// as an event loop does.
func TestHotPathAllocatesNothing(t *testing.T) {
	for _, shards := range []int{1, 16} {
		for _, multi := range []bool{false, true} {
			f := newFixture(t, router.Config{Shards: shards})
			c := f.open()
			if multi {
				// A watch list over several shards, where there are several.
				for i := range shards {
					c.says("watch "+f.tubeIn(i, 0)+"\n", fmt.Sprintf("WATCHING %d\n", i+2))
				}
			}
			put := []byte("put 1 0 60 64\r\n" + strings.Repeat("x", 64) + "\r\n")
			c.got.Grow(1 << 20)
			reserve, line := []byte("reserve\r\n"), []byte("delete 12345678\r\n")
			id := uint64(0)
			work := func() {
				id++
				c.got.Reset()
				c.s.Input(put)
				c.s.Input(reserve)
				line = append(strconv.AppendUint(line[:len("delete ")], id, 10), '\r', '\n')
				c.s.Input(line)
			}
			for range 1000 {
				work()
			}
			got := testing.AllocsPerRun(3000, work)
			if !bytes.HasSuffix(c.got.Bytes(), []byte("DELETED\r\n")) || !bytes.Contains(c.got.Bytes(), []byte("RESERVED ")) {
				t.Fatalf("got %q", c.got.Bytes())
			}
			if got != 0 {
				t.Errorf("%d shards, several watched %v: %v allocations for put, reserve, delete", shards, multi, got)
			}
			f.check()
		}
	}
}

// TestLargeBodyIsNotCopied follows the memory of a body too large for slabs: it is collected once
// and sent without a copy.
func TestLargeBodyIsNotCopied(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1, MaxJobSize: 1 << 20})
	c := f.open()
	body := strings.Repeat("z", slab.MaxSize+1)
	c.send(fmt.Sprintf("put 0 0 60 %d\r\n", len(body)))
	c.send(body[:10])
	c.send(body[10:] + "\r\n")
	c.wants("INSERTED 1\n")
	c.send("peek 1\r\n")
	c.send("reserve\r\n")
	sent := core.Large(c.stable)
	if n := len(sent); n%2 != 0 || &sent[0][0] != &sent[n/2][0] || string(sent[:n/2].Append(nil)) != body {
		t.Fatalf("%d pieces handed over", n)
	}
	c.take()
	c.says("delete 1\n", "DELETED\n")
	if string(sent[:len(sent)/2].Append(nil)) != body {
		t.Error("a body on its way changed when its job was deleted")
	}
}

// TestLargeRepliesUseUpTheTurn: a turn's replies are bounded in bytes, including large bodies.
func TestLargeRepliesUseUpTheTurn(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1, MaxJobSize: 1 << 20})
	c := f.open()
	c.send("put 0 0 60 1000000\r\n")
	c.send(strings.Repeat("z", 1_000_000) + "\r\n")
	c.wants("INSERTED 1\n")
	c.send(strings.Repeat("peek 1\r\n", 20))
	if n := len(c.stable); c.got.Len() > 6_000_000 || f.later() == 0 {
		t.Errorf("%d bytes in %d pieces in one turn, put off %d times", c.got.Len(), n, f.later())
	}
	f.rest()
	if want := 20 * len("FOUND 1 1000000\r\n\r\n"+strings.Repeat("z", 1_000_000)); c.got.Len() != want {
		t.Errorf("%d bytes in the end, want %d", c.got.Len(), want)
	}
}

// TestBodyMemoryFollowsArrival: announcing a body allocates no memory for it.
func TestBodyMemoryFollowsArrival(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1, MaxJobSize: 1 << 30})
	c := f.open()
	c.send("put 0 0 60 1000000000\r\n")
	c.send("only this much")
	if n := f.counted(); n > pieceMin {
		t.Errorf("%d bytes allocated for 14", n)
	}
	c.s.Abort()
	f.check()
	if !c.s.Gone() || f.counted() != 0 {
		t.Error("the body outlives its session")
	}
}

// TestHeldInputIsBounded: a client that sends more while its reserve waits is served in order up to
// the limit, and closed above it.
func TestHeldInputIsBounded(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	c, other := f.open(), f.open()
	c.send("reserve\r\n")
	chunk := strings.Repeat("list-tube-used\r\n", 1000)
	n := 0
	for ; n+len(chunk) <= heldMax; n += len(chunk) {
		c.send(chunk)
	}
	if c.closed {
		t.Fatalf("closed with %d bytes held", n)
	}
	other.says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	if got, want := c.take(), "RESERVED 1 1\r\nx\r\n"+strings.Repeat("USING default\r\n", n/16); got != want {
		t.Fatalf("%d bytes of replies, want %d", len(got), len(want))
	}
	f.check()
	c.send("reserve\r\n")
	for n = 0; n <= heldMax; n += len(chunk) {
		c.send(chunk)
	}
	f.rest()
	if !c.closed || !c.s.Gone() {
		t.Errorf("closed %v, gone %v with %d bytes held", c.closed, c.s.Gone(), n)
	}
	other.says("reserve-with-timeout 0\n", "RESERVED 1 1\nx\n")
	f.check()
}

// puts adds n jobs to the used tube.
func (c *testConn) puts(n int, line string) {
	c.f.t.Helper()
	for ; n > 0; n -= min(n, 1000) {
		c.send(strings.Repeat(line+"\r\nx\r\n", min(n, 1000)))
		c.f.rest()
	}
	c.take()
}

// TestClosingReturnsJobsInParts: closing a client with many jobs does not block other clients, and
// all jobs are returned, in one shard or several.
func TestClosingReturnsJobsInParts(t *testing.T) {
	for _, tubes := range []int{1, 3} {
		f := newFixture(t, router.Config{Shards: 4})
		c, other := f.open(), f.open()
		n := 4000
		for i := range tubes {
			name := f.tubeIn(i, 0)
			c.says("use "+name+"\nwatch "+name+"\n", fmt.Sprintf("USING %s\nWATCHING %d\n", name, i+2))
			c.puts(n/tubes, "put 0 0 60 1")
		}
		n = n / tubes * tubes
		for range n / 1000 {
			c.send(strings.Repeat("reserve\r\n", 1000))
		}
		c.send(strings.Repeat("reserve\r\n", n%1000))
		f.rest()
		if got := strings.Count(c.take(), "RESERVED"); got != n {
			t.Fatalf("%d jobs reserved, want %d", got, n)
		}
		c.s.Abort()
		if c.s.Gone() {
			t.Error("all done at once")
		}
		other.send("list-tube-used\r\n")
		other.wants("USING default\n")
		rounds := 0
		for !c.s.Gone() && f.round() {
			rounds++
		}
		if !c.s.Gone() || rounds < 2 {
			t.Errorf("gone %v after %d rounds", c.s.Gone(), rounds)
		}
		var sum core.Counts
		for _, sh := range f.d.Shards() {
			k := sh.Counts()
			sum.Add(&k)
		}
		if sum.Ready != uint64(n) || sum.Reserved != 0 || sum.Clients != 1 {
			t.Errorf("%+v, want %d jobs ready and one client", sum, n)
		}
		f.check()
	}
}

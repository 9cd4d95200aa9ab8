package router_test

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/router"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A reserve reads tubes one by one, and shards one by one. These tests cover the moments in
// between. The simulator does the same at random, with every way in which a job becomes ready.

// wide opens a client with a long list that reads one tube per turn.
func (f *fixture) wide(n int) (c *testConn, names []string) {
	f.t.Helper()
	c = f.open()
	for i := range n {
		names = append(names, fmt.Sprintf("w%d", i))
		c.send("watch " + names[i] + "\r\n")
	}
	c.send("ignore default\r\n")
	f.rest()
	c.take()
	c.send("list-tubes-watched\r\n")
	f.rest()
	names = strings.Split(strings.TrimSpace(c.take()), "\n")[2:]
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], "- ")
	}
	f.d.LookAtMost(1)
	return c, names
}

// TestLongListFollowsTheLogs: a long list is read once, and again only after log entries were
// overwritten or the list has changed.
func TestLongListFollowsTheLogs(t *testing.T) {
	const n = 400
	f := newFixture(t, router.Config{Shards: 8})
	p := f.open()
	c, names := f.wide(n)
	f.d.LookAtMost(50)
	turns := func(text, want string) int {
		t.Helper()
		before := f.later()
		c.says(text, want)
		f.check()
		return f.later() - before
	}
	id := 0
	put := func(name string, times int) {
		t.Helper()
		for range times {
			id++
			p.says(fmt.Sprintf("use %s\nput 0 0 60 1\nx\ndelete %d\n", name, id), fmt.Sprintf("USING %s\nINSERTED %d\nDELETED\n", name, id))
		}
		id++
		f.put(p, name, "0 0 60", "y")
	}
	const poll = "reserve-with-timeout 0\n"
	got := func() string { return fmt.Sprintf("RESERVED %d 1\ny\n", id) }
	if n := turns(poll, "TIMED_OUT\n"); n < 7 {
		t.Errorf("all of it was looked at in %d turns", n)
	}
	for _, tt := range []struct {
		name  string
		times int
		most  int
	}{{names[7], 0, 0}, {names[n-1], 20, 0}, {names[300], 300, 9}, {names[7], 2000, 9}, {names[7], 1, 0}} {
		put(tt.name, tt.times)
		if n := turns(poll, got()); n > tt.most {
			t.Errorf("after %d jobs it was looked at in %d turns more", tt.times, n)
		}
		if n := turns(poll, "TIMED_OUT\n"); n > 0 {
			t.Errorf("after %d jobs it was looked at in %d turns more", tt.times, n)
		}
	}
	put(names[3], 0)
	put(names[5], 0)
	if n := turns("ignore "+names[5]+"\n"+poll+poll, fmt.Sprintf("WATCHING %d\nRESERVED %d 1\ny\nTIMED_OUT\n", n-1, id-1)); n < 7 {
		t.Errorf("another list was looked at in %d turns", n)
	}
	if n := turns("watch "+names[5]+"\n"+poll+poll, fmt.Sprintf("WATCHING %d\n%sTIMED_OUT\n", n, got())); n < 7 {
		t.Errorf("another list was looked at in %d turns", n)
	}
}

// apartTubes returns n names of tubes in n different shards. None is in the shard of
// "default", which a client watches first.
func apartTubes(f *fixture, n int) (names []string) {
	f.t.Helper()
	if most := len(f.d.Shards()) - 1; n > most {
		f.t.Fatalf("%d tubes in as many shards besides that of default, of which there are %d", n, most)
	}
	taken := map[int]bool{f.d.ShardOf("default"): true}
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprintf("tube-%d", i)
		if sh := f.d.ShardOf(name); !taken[sh] {
			taken[sh] = true
			names = append(names, name)
		}
	}
	return names
}

// TestDeathIsOneStep: a client that is woken by a job of a closing client finds all of that
// client's jobs returned, also jobs in other shards.
func TestDeathIsOneStep(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	tubes := apartTubes(f, 2)
	holder := f.open()
	for i, name := range tubes {
		holder.says("use "+name+"\n", "USING "+name+"\n")
		holder.says("put 0 0 60 1\nx\n", fmt.Sprintf("INSERTED %d\n", i+1))
		holder.says(fmt.Sprintf("reserve-job %d\n", i+1), fmt.Sprintf("RESERVED %d 1\nx\n", i+1))
	}
	woken := 0
	var sum core.Counts
	l := f.d.NewLoop(func() {
		woken++
		sum = core.Counts{}
		b := shard.Batch{Home: stranger{}, Now: f.now}
		for _, sh := range f.d.Shards() {
			if !sh.Own(&b) {
				t.Error("delivered with a shard owned")
				return
			}
			n := sh.Counts()
			sum.Add(&n)
			sh.Release(&b)
		}
	})
	waiter := &testConn{f: f}
	waiter.s = l.Open(waiter)
	waiter.s.Input([]byte("watch " + tubes[0] + "\r\nreserve\r\n"))
	holder.s.Abort()
	if woken != 1 || sum.Ready != 1 || sum.Reserved != 1 {
		t.Errorf("woken %d times, then %d jobs ready and %d reserved, want one of each", woken, sum.Ready, sum.Reserved)
	}
	l.GoOn()
	if got := waiter.got.String(); got != "WATCHING 2\r\nRESERVED 1 1\r\nx\r\n" {
		t.Errorf("the waiting client got %q", got)
	}
}

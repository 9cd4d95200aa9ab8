package router_test

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/router"
)

// What is ready is looked at tube by tube, and shard by shard. These are the moments
// in between; with every way to come to be ready the simulator does the same at
// random.

// wide opens a client with a long list that looks at one tube a turn.
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

// one has a client say something while the others' turns are put off.
func (f *fixture) one(c *testConn, text string) {
	f.t.Helper()
	c.send(text)
	if got := c.got.String(); !strings.Contains(got, "INSERTED") && !strings.Contains(got, "DELETED") {
		f.t.Fatalf("%q: %q", text, got)
	}
}

// TestLongListFollowsTheLogs: once looked at, a long list is not looked at again,
// unless the logs have gone on too far or the list is another.
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

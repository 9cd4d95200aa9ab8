package router_test

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/router"
	"polystalk/router/routertest"
	"polystalk/shard/core"
)

// What is ready is looked at tube by tube, and shard by shard. These are the moments
// in between; with every way to come to be ready the simulator does the same at
// random.

// apart opens a client that watches a tube in each of n shards, and returns these in
// the order in which it queues there.
func (f *fixture) apart(n int) (c *testConn, shards []int, names []string) {
	f.t.Helper()
	for i := range f.d.Shards() {
		if i != f.d.ShardOf("default") && len(shards) < n {
			shards = append(shards, i)
		}
	}
	c, names = f.watching(shards...)
	return c, shards, names
}

// TestJobOfALaterShardGoesFirst: a client is queued in the first shard and not yet in
// the third. A job comes to the third, its client is answered, and then a worse one to
// the first.
func TestJobOfALaterShardGoesFirst(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	p := f.open()
	c, at, names := f.apart(3)
	late := f.own(at[1])
	c.send("reserve\r\n")
	p.says("use "+names[2]+"\nput 0 0 60 1\nx\n", "USING "+names[2]+"\nINSERTED 1\n")
	p.says("use "+names[0]+"\nput 5 0 60 1\ny\n", "USING "+names[0]+"\nINSERTED 2\n")
	c.wants("")
	late()
	f.rest()
	c.wants("RESERVED 1 1\nx\n")
	f.check()
	c.says("reserve\n", "RESERVED 2 1\ny\n")
	f.check()
}

// TestNextInTheQueueIsServedWhileAClientRegisters: a client that is queued and does
// not wait yet is passed over, for others in the queue are served at once.
func TestNextInTheQueueIsServedWhileAClientRegisters(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	p := f.open()
	c, at, names := f.apart(2)
	d, _, _ := f.apart(1)
	late := f.own(at[1])
	c.send("reserve\r\n")
	d.says("reserve\n", "")
	p.says("use "+names[0]+"\nput 5 0 60 1\nx\n", "USING "+names[0]+"\nINSERTED 1\n")
	d.wants("RESERVED 1 1\nx\n")
	late()
	f.rest()
	c.wants("")
	f.check()
	// Now it waits, and its place is before clients that came later.
	d.says("reserve\n", "")
	p.says("put 5 0 60 1\ny\n", "INSERTED 2\n")
	c.wants("RESERVED 2 1\ny\n")
	d.wants("")
	f.check()
}

// TestWaitEndsWhileRegistering: the time is over, or a margin begins, before the client
// is queued everywhere.
func TestWaitEndsWhileRegistering(t *testing.T) {
	for _, held := range []bool{false, true} {
		for _, job := range []bool{false, true} {
			f := newFixture(t, router.Config{Shards: 4})
			p := f.open()
			c, at, names := f.apart(3)
			want := "TIMED_OUT\n"
			if held {
				f.put(p, names[0], "0 0 2", "h")
				c.says("reserve\n", "RESERVED 1 1\nh\n")
				want = "DEADLINE_SOON\n"
			}
			late := f.own(at[1])
			c.send("reserve-with-timeout 1\r\n")
			f.pass(core.Second)
			c.wants("")
			if job {
				p.send("use " + names[2] + "\r\nput 0 0 60 1\r\nx\r\n")
				f.rest()
				want = map[bool]string{false: "RESERVED 1 1\nx\n", true: "RESERVED 2 1\nx\n"}[held]
			}
			late()
			f.rest()
			c.wants(want)
			f.check()
		}
	}
}

// TestBetterJobBeforeTheVisit: between the look at the keys and the visit to the shard
// of the best, that is taken, a better one comes to another shard, and then a worse one
// to this.
func TestBetterJobBeforeTheVisit(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	p := f.open()
	c, names := f.watching(0, 1)
	q := f.open()
	q.says("use "+names[1]+"\n", "USING "+names[1]+"\n")
	f.put(p, names[0], "3 0 60", "a") // job 1
	late := f.own(0)
	c.send("reserve-with-timeout 0\r\n")
	// The owner of shard 0 stands for others that were there before the client.
	var r core.Reply
	do := func(op core.Op) {
		t.Helper()
		sh := f.d.Shards()[0]
		f.other.Now = f.now
		if sh.Apply(&f.other, &op, &r); r.Status != core.StatusOK {
			t.Fatalf("status %d", r.Status)
		}
	}
	do(core.Op{Kind: core.OpDelete, ID: 1})
	q.says("put 0 0 60 1\nb\n", "INSERTED 2\n")
	do(core.Op{Kind: core.OpPut, ID: 99, Tube: f.tubeID(names[0]), Pri: 5, TTR: 60, Body: []byte("c")})
	late()
	f.rest()
	c.wants("RESERVED 2 1\nb\n")
}

// tubeID is the handle of a tube that some session watches.
func (f *fixture) tubeID(name string) core.TubeID {
	f.t.Helper()
	for ds := range f.d.Sessions() {
		for _, w := range routertest.Inspect(ds.Session).Watched() {
			if w.Name == name {
				return w.ID
			}
		}
	}
	f.t.Fatalf("nobody watches %s", name)
	return 0
}

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

// TestOldKeysAreNotBelieved: of two jobs that come one after the other while a client
// looks at its tubes, the first, better one comes to a tube that it has looked at.
func TestOldKeysAreNotBelieved(t *testing.T) {
	const n = 40
	for _, known := range []bool{false, true} {
		for at := range n - 2 {
			f := newFixture(t, router.Config{Shards: 8})
			p := f.open()
			c, names := f.wide(n)
			if known {
				// The looking is at those that had a job.
				for _, name := range names {
					f.put(p, name, "9 0 60", "old")
				}
				c.send("reserve-with-timeout 0\r\n")
				f.rest()
				c.take()
			}
			c.send("reserve-with-timeout 0\r\n")
			for range at + 1 {
				f.round()
			}
			c.wants("")
			f.one(p, "use "+names[0]+"\r\nput 0 0 60 5\r\nfirst\r\n")
			f.one(p, "use "+names[n-1]+"\r\nput 5 0 60 6\r\nsecond\r\n")
			p.take()
			f.rest()
			if got := c.take(); !strings.Contains(got, "first") {
				t.Fatalf("known %v, after %d looks: %q", known, at, got)
			}
			f.check()
		}
	}
}

// one has a client say something while the others' turns are put off.
func (f *fixture) one(c *testConn, text string) {
	f.t.Helper()
	c.send(text)
	if got := c.got.String(); !strings.Contains(got, "INSERTED") && !strings.Contains(got, "DELETED") {
		f.t.Fatalf("%q: %q", text, got)
	}
}

// TestNoneIsAMoment: all the time that a client looks one of two tubes has a job.
func TestNoneIsAMoment(t *testing.T) {
	const n = 40
	for at := range n - 2 {
		f := newFixture(t, router.Config{Shards: 8})
		p := f.open()
		c, names := f.wide(n)
		f.put(p, names[n-1], "0 0 60", "last")
		c.send("reserve-with-timeout 0\r\n")
		for range at + 1 {
			f.round()
		}
		c.wants("")
		f.one(p, "use "+names[0]+"\r\nput 0 0 60 5\r\nfirst\r\n")
		f.one(p, "delete 1\r\n")
		p.take()
		f.rest()
		c.wants("RESERVED 2 5\nfirst\n")
		f.check()
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

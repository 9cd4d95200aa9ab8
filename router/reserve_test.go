package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"polystalk/router"
	"polystalk/router/routertest"
	"polystalk/shard/core"
)

// watching opens a client that watches only one tube in each of the shards,
// and returns the tubes.
func (f *fixture) watching(shards ...int) (*testConn, []string) {
	f.t.Helper()
	c := f.open()
	var names []string
	for _, i := range shards {
		names = append(names, f.tubeIn(i, 0))
		c.send("watch " + f.tubeIn(i, 0) + "\r\n")
	}
	c.send("ignore default\r\n")
	f.rest()
	c.take()
	return c, names
}

// put adds a job to a tube and returns nothing: ids count up from 1.
func (f *fixture) put(c *testConn, tube, line, body string) {
	f.t.Helper()
	c.send(fmt.Sprintf("use %s\r\nput %s %d\r\n%s\r\n", tube, line, len(body), body))
	f.rest()
	c.take()
}

// TestProbeServesNothingBehindTheSecondBest: between the look at the
// published keys and the visit the best job goes. The shard then has a worse
// one than another shard, and must not give it.
func TestProbeServesNothingBehindTheSecondBest(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		f := newFixture(t, router.Config{Shards: 4})
		p := f.open()
		c, _ := f.watching(order...)
		f.put(p, f.tubeIn(0, 0), "1 0 60", "best")   // job 1
		f.put(p, f.tubeIn(0, 0), "10 0 60", "worst") // job 2
		f.put(p, f.tubeIn(2, 0), "7 0 60", "third")  // job 3
		f.put(p, f.tubeIn(1, 0), "5 0 60", "second") // job 4
		late := f.own(0)
		p.send("delete 1\r\n")
		c.send("reserve\r\n")
		c.wants("")
		late()
		f.rest()
		c.wants("RESERVED 4 6\nsecond\n")

		// What is best when the shard is visited goes, if it is better still.
		f.put(p, f.tubeIn(0, 0), "2 0 60", "new") // job 5
		late = f.own(0)
		c.send("reserve\r\n")
		late()
		f.rest()
		c.wants("RESERVED 5 3\nnew\n")
		f.check()
	}
}

// TestBestJobGoneEverywhere: the published key leads to an empty shard, and
// nothing is anywhere else.
func TestBestJobGoneEverywhere(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	p := f.open()
	c, names := f.watching(0, 1)
	f.put(p, names[0], "1 0 60", "x")
	late := f.own(0)
	p.send("delete 1\r\n")
	c.send("reserve-with-timeout 0\r\n")
	late()
	f.rest()
	c.wants("TIMED_OUT\n")
	f.check()
}

// TestJobThatComesWhileRegisteringIsNotMissed puts a job where the client has
// looked already and where it has not.
func TestJobThatComesWhileRegisteringIsNotMissed(t *testing.T) {
	for _, at := range []int{0, 1, 2} {
		f := newFixture(t, router.Config{Shards: 4})
		p := f.open()
		c, names := f.watching(0, 1, 2)
		p.says("use "+names[at]+"\n", "USING "+names[at]+"\n")
		late := f.own(1)
		c.send("reserve\r\n") // registered in some, on its way to shard 1
		p.send("put 0 0 60 1\r\nx\r\n")
		late()
		f.rest()
		c.wants("RESERVED 1 1\nx\n")
		f.check()
		c.says("delete 1\n", "DELETED\n")
		f.check()
	}
}

// TestOneWaitIsServedOnce: two shards have a job for the same waiting client
// at the same time. One serves it, the other keeps its job.
func TestOneWaitIsServedOnce(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	p := f.open()
	c, names := f.watching(0, 1, 2)
	c.says("reserve\n", "")
	for _, name := range names {
		late := f.own(f.d.ShardOf(name))
		p.send(fmt.Sprintf("use %s\r\nput 0 0 60 1\r\nx\r\n", name))
		late()
	}
	f.rest()
	c.wants("RESERVED 1 1\nx\n")
	c.says("reserve\nreserve\n", "RESERVED 2 1\nx\nRESERVED 3 1\nx\n")
	f.check()
}

// TestRegisteringClientGetsTheBest: while the client registers in shard 1, shard 0 has
// a job for it. It is the worse one: shard 1 has been given a better one before.
func TestRegisteringClientGetsTheBest(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	p, q := f.open(), f.open()
	c, names := f.watching(0, 1)
	q.says("use "+names[1]+"\n", "USING "+names[1]+"\n")
	p.says("use "+names[0]+"\n", "USING "+names[0]+"\n")
	late := f.own(1)
	q.send("put 0 0 60 1\r\nq\r\n") // into the inbox of shard 1, first
	c.send("reserve\r\n")           // registers in 0, then behind q's put in 1
	if h := routertest.Inspect(c.s.Session).Handles(); !c.s.Session.Busy() || !h.In(0).Waiting || h.In(1).Waiting {
		t.Fatal("not registering")
	}
	p.send("put 0 0 60 1\r\np\r\n") // shard 0 keeps it
	late()
	f.rest()
	c.wants("RESERVED 1 1\nq\n")
	p.wants("INSERTED 2\n")
	q.wants("INSERTED 1\n")
	f.check()
	c.says("reserve\n", "RESERVED 2 1\np\n")
	f.check()
}

// TestWakeUpKeepsItsBody: the body of a wake-up stays what it was although
// its job's memory is another's when the wake-up is delivered.
func TestWakeUpKeepsItsBody(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1})
	p, c := f.open(), f.open()
	c.says("reserve\n", "")
	late := f.own(0)
	p.send("put 0 0 1 4\r\naaaa\r\n")
	late() // c is served; the loop has not heard of it yet
	f.now += 2 * core.Second
	late = f.own(0)
	sh := f.d.Shards()[0]
	var r core.Reply
	f.d.Stamp(&f.other)
	sh.Apply(&f.other, &core.Op{Kind: core.OpDelete, ID: 1}, &r)
	if r.Status != core.StatusOK {
		t.Fatalf("deleting the job that ran out: status %d", r.Status)
	}
	sh.Apply(&f.other, &core.Op{Kind: core.OpPut, ID: 99, Tube: 1, TTR: 60, Body: []byte("bbbb")}, &r)
	late()
	f.rest()
	c.wants("RESERVED 1 4\naaaa\n")
}

// TestHalfCloseWhileRegistering: a reserve that is still on its way to the
// shards is answered, as is what follows it.
func TestHalfCloseWhileRegistering(t *testing.T) {
	for _, busy := range []int{0, 1, 2} {
		for _, job := range []bool{false, true} {
			f := newFixture(t, router.Config{Shards: 4})
			p := f.open()
			c, names := f.watching(0, 1, 2)
			p.says("use "+names[0]+"\n", "USING "+names[0]+"\n")
			late := f.own(busy)
			c.send("reserve\r\nlist-tube-used\r\nreserve\r\n")
			want := "TIMED_OUT\nUSING default\nTIMED_OUT\n"
			if job {
				p.send("put 0 0 60 1\r\nx\r\n")
				want = "RESERVED 1 1\nx\nUSING default\nTIMED_OUT\n"
			}
			c.s.HalfClose()
			late()
			f.rest()
			c.wants(want)
			if !c.closed || !c.s.Gone() {
				t.Errorf("closed %v, gone %v", c.closed, c.s.Gone())
			}
			f.check()
			if job {
				p.says("peek-ready\n", "INSERTED 1\nFOUND 1 1\nx\n")
			}
		}
	}
}

// TestManyShards passes the lengths at which sessions change from walking to
// looking up.
func TestManyShards(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 64})
	p := f.open()
	var all []int
	for i := range 64 {
		all = append(all, i)
	}
	c, names := f.watching(all...)
	f.check()
	for i := range 64 {
		f.put(p, names[63-i], fmt.Sprintf("%d 0 60", i), "x")
	}
	for i := range 64 {
		c.says("reserve\n", fmt.Sprintf("RESERVED %d 1\nx\n", i+1))
	}
	c.says("reserve\n", "")
	f.check()
	f.put(p, names[40], "0 0 60", "y")
	c.wants("RESERVED 65 1\ny\n")
	for i := range 60 {
		c.says("ignore "+names[i]+"\n", fmt.Sprintf("WATCHING %d\n", 63-i))
	}
	f.check()
	c.send("list-tubes-watched\r\n")
	f.rest()
	left := strings.Split(strings.TrimSpace(c.take()), "\n")[2:]
	for i := range left {
		left[i] = strings.TrimPrefix(left[i], "- ")
	}
	slices.Sort(left)
	want := slices.Sorted(slices.Values(names[60:]))
	if !slices.Equal(left, want) {
		t.Errorf("watches %q, want %q", left, want)
	}
	c.s.Abort()
	f.check()
}

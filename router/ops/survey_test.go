package ops

import (
	"fmt"
	"testing"

	"polystalk/shard"
	"polystalk/shard/core"
)

// A bench has shards without goroutines, and clients that visit them one after the other.
type bench struct {
	t     *testing.T
	m     *Map
	batch shard.Batch
}

// nobody is the Home of a batch without messages.
type nobody struct{}

func (nobody) Post(*core.Message) { panic("a message came to nobody") }

func newBench(t *testing.T, shards int) *bench {
	b := &bench{t: t, batch: shard.Batch{Now: 1_700_000_000 * core.Second, Home: nobody{}}}
	b.m = NewMap(MapOptions{Shards: shards, BodyFreed: func(core.Large) {}, Naming: Naming{
		Fold:  func(name string) string { return name },
		Shown: func(name string) (int, bool) { return len(name), false },
	}})
	for i := range shards {
		sh := shard.New(i, core.New(b.m.Directory()), func(o *shard.Batch) { o.Now = b.batch.Now })
		b.m.Add(sh)
		t.Cleanup(sh.Close)
	}
	return b
}

// Spend, SpendOne and LookMost implement Pace.
func (b *bench) Spend(int)      {}
func (b *bench) SpendOne() bool { return true }
func (b *bench) LookMost() int  { return LookMost }

// do runs op on a shard.
func (b *bench) do(i int, op *core.Op) (r core.Reply) {
	b.t.Helper()
	sh := b.m.Shard(i)
	if !sh.Own(&b.batch) {
		b.t.Fatalf("shard %d is owned", i)
	}
	sh.Apply(&b.batch, op, &r)
	sh.Release(&b.batch)
	return r
}

// A client of a bench.
type client struct {
	b *bench
	w WatchList
	h Handles
	r *Reserve
}

func (b *bench) client() *client {
	c := &client{b: b}
	c.r = NewReserve(b.m, &b.batch, b, &c.w, &c.h)
	return c
}

func (c *client) visit(i int, op *core.Op) (core.Reply, *Handle) {
	c.b.t.Helper()
	r := c.b.do(i, op)
	return r, c.h.Learn(i, len(c.b.m.Shards()), &r)
}

func (c *client) watch(name string) {
	c.b.t.Helper()
	var op core.Op
	r, h := c.visit(c.w.Watch(c.b.m, &c.h, []byte(name), &op), &op)
	c.w.Add(r.Face, h)
	for i := c.w.Publish(c.b.m, r.Mirror, &op); i != None; i = c.w.Publish(c.b.m, r.Mirror, &op) {
		r, _ = c.visit(i, &op)
	}
	for i, f := range c.w.faces.List {
		if at := c.w.Find([]byte(f.Name())); at != i || !c.w.Spread && c.b.m.ofFace(f) != c.b.m.ofFace(c.w.faces.List[0]) {
			c.b.t.Fatalf("entry %d of the watch list is found at %d, or in another shard", i, at)
		}
	}
}

// put puts a job into a tube that a client watches.
func (b *bench) put(name string, id core.JobID, pri, delay uint32) {
	b.t.Helper()
	var op core.Op
	op.Use([]byte(name), 0)
	i := b.m.OfTube([]byte(name))
	r := b.do(i, &op)
	op.Put(r.Tube, id, pri, delay, 60, []byte("x"), nil)
	b.do(i, &op)
	op.Unuse(r.Tube)
	b.do(i, &op)
}

func (b *bench) delete(name string, id core.JobID) {
	b.t.Helper()
	var op core.Op
	op.Delete(0, id)
	if r := b.do(b.m.OfTube([]byte(name)), &op); r.Status != core.StatusOK {
		b.t.Fatalf("job %d is not deleted: %v", id, r.Status)
	}
}

// TestSurveySeesNewJobs: Stands returns true only if there was a moment at which no better job was
// ready.
func TestSurveySeesNewJobs(t *testing.T) {
	for _, n := range []int{3, 40} {
		b := newBench(t, 8)
		c, other := b.client(), b.client()
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("w", i))
			c.watch(names[i])
		}
		look := func(where int) *survey {
			t.Helper()
			v := c.r.surveyed()
			v.begin()
			for !v.look() {
			}
			if v.where != where || !v.quiet(core.MaxKey, None) {
				t.Fatalf("%d tubes: at rest the best is in shard %d, want %d", n, v.where, where)
			}
			return v
		}
		id := core.JobID(0)
		for i, name := range append(names, "stranger") {
			other.watch(name) // so that its jobs are logged
			at := b.m.OfTube([]byte(name))
			for _, delay := range []uint32{0, 1} {
				v := look(None)
				id++
				b.put(name, id, 7, delay)
				b.batch.Now += core.Time(delay) * core.Second
				b.m.Shard(at).Catchup(&b.batch)
				b.delete(name, id)
				strange := i == n
				if got := v.quiet(core.MaxKey, None); got != strange {
					t.Fatalf("%s: nothing came: %v", name, got)
				}
				if got := v.quiet(core.Key{Pri: 7, ID: id}, None); !got {
					t.Fatalf("%s: what came is not better than itself", name)
				}
				if got := v.quiet(core.Key{Pri: 7, ID: id + 1}, None); got != strange {
					t.Fatalf("%s: nothing better came: %v", name, got)
				}
				if got := v.quiet(core.MaxKey, at); !got {
					t.Fatalf("%s: something came in another shard than %d", name, at)
				}
			}
		}
		b.put(names[0], id+1, 3, 0)
		look(b.m.OfTube([]byte(names[0])))
	}
}

// A meddling is a Pace that runs a function in the middle of a look, at call number at.
type meddling struct {
	*bench
	calls, at int
	then      func()
}

func (m *meddling) Spend(int) {
	if m.calls++; m.calls == m.at {
		m.then()
	}
}

// TestLookStartsAgainAfterANewJob: a survey reads all tubes and finds no job, but there was no
// moment at which all of them were empty.
func TestLookStartsAgainAfterANewJob(t *testing.T) {
	b := newBench(t, 8)
	c := b.client()
	pace := &meddling{bench: b}
	c.r.pace = pace
	var names []string
	for i := range surveyShort + 8 { // a long list, so that a look takes several turns
		names = append(names, fmt.Sprint("w", i))
		c.watch(names[i])
	}
	var op core.Op
	reserve := func() (s Step) {
		t.Helper()
		pace.calls = 0
		for s = c.r.Start(0, &op); s.Next == Look || s.Next == Later; {
			s = c.r.Look(&op)
		}
		return s
	}
	for range 2 { // first it explores the list
		if s := reserve(); s.Said != core.StatusTimedOut {
			t.Fatalf("of nothing: %+v", s)
		}
	}
	// The last call happens after all tubes were read.
	at := b.m.OfTube([]byte(names[3]))
	pace.at, pace.then = pace.calls, func() { b.put(names[3], 1, 7, 0) }
	if s := reserve(); s.Next != Visit || s.Shard != at || c.r.purpose != probe {
		t.Errorf("a job came in shard %d after it was looked at, and next is %+v, for purpose %d", at, s, c.r.purpose)
	}
	if pace.calls <= pace.at {
		t.Errorf("%d calls, and something was to come at the one with number %d, before the last", pace.calls, pace.at)
	}
}

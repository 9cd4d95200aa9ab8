package core

import "testing"

// TestDigest: the digest changes with each thing that comes back of a job or a tube, and is
// the old one again when the thing is; what does not come back leaves it alone.
func TestDigest(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	id := p.put(5, 0, 10)
	digest := func() uint64 { return w.core.Digest(w.now, 7*Second) }
	last := digest()
	changes := func(what string, want bool) {
		t.Helper()
		w.check()
		got := digest()
		if (got != last) != want {
			t.Errorf("%s: the digest changes: %v", what, !want)
		}
		last = got
	}
	changes("nothing", false)
	first := last

	q := w.join("b")
	changes("a client", false)
	other := q.put(5, 0, 10)
	changes("another job", true)
	q.on(OpDelete, other, StatusOK)
	changes("its end", true)
	if last != first {
		t.Error("the digest is another with the same jobs")
	}

	p.reserve(id)
	changes("a reservation", false)
	p.on(OpTouch, id, StatusOK)
	changes("a touch", false)
	w.pass(11 * Second)
	changes("its time to run is over", false)
	p.reserve(id)
	p.release(id, 5, 0)
	changes("a release as it was", false)
	p.reserve(id)
	p.release(id, 6, 0)
	changes("another priority", true)
	p.reserve(id)
	p.release(id, 6, 20)
	changes("a delay", true)
	delayed := last
	w.now += 19 * Second
	changes("a delay that goes on", false)
	// By the clock alone: a core that was not asked since is no other.
	w.now += Second
	changes("the end of a delay", true)
	w.pass(0)
	changes("an operation after that", false)
	if last == delayed {
		t.Error("a ready job is as a delayed one")
	}
	p.reserve(id)
	p.do(Op{Kind: OpBury, Client: p.id, ID: id, Pri: 6}, StatusOK)
	changes("a burial", true)
	p.kick(1)
	changes("a kick", true)

	w.pause("a", 30)
	changes("a pause", true)
	w.pass(30 * Second)
	changes("its end", true)

	if was, is := last, w.core.Digest(w.now, 8*Second); was == is {
		t.Error("a day that is set leaves the digest alone, which tells of days")
	}
}

// TestDigestOfBodies: of a large body it is the same in whatever pieces it is, and another
// where a byte moves between neighbours.
func TestDigestOfBodies(t *testing.T) {
	digest := func(tube string, bodies ...Op) uint64 {
		w := newWorld(t)
		p := w.join(tube)
		for i, op := range bodies {
			op.Kind, op.Client, op.Tube, op.ID, op.TTR = OpPut, p.id, p.tube, JobID(i+1), 10
			w.do(op, StatusOK)
		}
		return w.core.Digest(w.now, 0)
	}
	text := make([]byte, 200_000)
	for i := range text {
		text[i] = byte(i >> 7)
	}
	whole := digest("a", Op{Large: Large{text}})
	if whole != digest("a", Op{Large: Large{text[:100_000], text[100_000:]}}) {
		t.Error("the digest depends on the pieces of a body")
	}
	text[150_000]++
	if whole == digest("a", Op{Large: Large{text}}) {
		t.Error("the digest does not see a byte of a large body")
	}
	if digest("a", Op{Body: []byte("xy")}, Op{Body: []byte("z")}) == digest("a", Op{Body: []byte("x")}, Op{Body: []byte("yz")}) {
		t.Error("a byte may belong to either of two jobs")
	}
	if digest("ab", Op{Body: []byte("c")}) == digest("a", Op{Body: []byte("bc")}) {
		t.Error("a byte may belong to the tube or to the body")
	}
}

// TestDigestOfSubmittedJobs: those that are only done while somebody follows them do not
// count, and what a function's job has besides does.
func TestDigestOfSubmittedJobs(t *testing.T) {
	digest := func(unique string, background bool) uint64 {
		p := newFunctionWorld(t, SubmitOptions{}).session()
		p.submit("f", unique, "x", 1024, background, 1)
		return p.core.Digest(p.now, 0)
	}
	empty := newFunctionWorld(t, SubmitOptions{})
	if digest("", false) != empty.core.Digest(empty.now, 0) {
		t.Error("a job that ends with its followers counts")
	}
	if digest("u", true) == digest("v", true) || digest("u", true) == digest("", false) {
		t.Error("the unique id of a job does not count")
	}
}

// TestFullDiskForgetsReserveJob: on a disk that is full for good a delayed job that is reserved by
// its id is not recorded as ready. So whoever has the records has it delayed, until it changes
// again; and nothing else is different.
func TestFullDiskForgetsReserveJob(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	w.do(Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: 1, TTR: 10, Delay: 5, Body: []byte("x")}, StatusOK)
	digests := func() (here, there uint64) {
		t.Helper()
		if err := s.take(); err != nil {
			t.Fatal(err)
		}
		c, _, err := s.replay(w.now, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return w.core.Digest(w.now, 0), c.Digest(w.now, 0)
	}
	if a, b := digests(); a != b {
		t.Fatal("a delayed job comes back as another")
	}
	s.buf.Full = true
	p.do(Op{Kind: OpReserveJob, Client: p.id, ID: 1}, StatusReserved)
	if a, b := digests(); a == b {
		t.Error("it is recorded that the job is reserved, or the digest does not see it")
	}
	s.buf.Full = false
	w.do(Op{Kind: OpRelease, Client: p.id, ID: 1, Pri: 7}, StatusOK)
	if a, b := digests(); a != b {
		t.Error("what changes again comes back as another")
	}
}

package core

import "testing"

// TestDigestTellsWhatComesBack: it changes with each thing that comes back of a job or a tube, and
// with nothing else.
func TestDigestTellsWhatComesBack(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	id := p.put(5, 0, 10)
	digest := func() uint64 { return w.core.Digest(w.now, 7*Second) }
	first := digest()
	last := first
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"a client", func() { w.join("b") }, false},
		{"another job", func() { p.put(5, 0, 10) }, true},
		{"that job's end", func() { p.on(OpDelete, id+1, StatusOK) }, true},
		{"a reservation", func() { p.reserve(id) }, false},
		{"a release as it was", func() { p.release(id, 5, 0) }, false},
		{"another priority", func() { p.reserve(id); p.release(id, 6, 0) }, true},
		{"a delay", func() { p.reserve(id); p.release(id, 6, 20) }, true},
		{"a delay that goes on", func() { w.now += 19 * Second }, false},
		{"the end of a delay, of which the core has not heard", func() { w.now += Second }, true},
		{"an operation after that", func() { w.pass(0) }, false},
		{"a burial", func() { p.reserve(id); p.do(Op{Kind: OpBury, Client: p.id, ID: id, Pri: 6}, StatusOK) }, true},
		{"a kick", func() { p.kick(1) }, true},
		{"a pause", func() { w.pause("a", 30) }, true},
		{"its end", func() { w.pass(30 * Second) }, true},
	} {
		step.do()
		if now := digest(); (now != last) != step.want {
			t.Errorf("%s: the digest changes: %v", step.what, !step.want)
		} else if last = now; step.what == "that job's end" && last != first {
			t.Error("the digest is another with the same jobs")
		}
	}
	if last == w.core.Digest(w.now, 8*Second) {
		t.Error("a time of day that is set leaves the digest alone, which tells of days")
	}
}

// TestFullDiskForgetsReserveJob: on a full disk it is not recorded that a delayed job is ready, since
// it was reserved by its id. So the records have it delayed until it changes again.
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

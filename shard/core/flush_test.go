package core

import (
	"fmt"
	"slices"
	"testing"
)

// flush flushes jobs of a tube, and wants that number.
func (w *world) flush(name string, states States, want uint32) Flushed {
	w.t.Helper()
	x := new(OperatorOp)
	if r := w.do(Op{Kind: opFlush, Name: []byte(name), N: uint32(states), Operator: x}, StatusOK); r.N != want {
		w.t.Fatalf("flushed %d jobs, %+v, want %d", r.N, x.Flushed, want)
	}
	return x.Flushed
}

// collected wants all that has a ticket to be collected, or not.
func (w *world) collected(ticket uint64, want bool) Reply {
	w.t.Helper()
	status := StatusOK
	if !want {
		status = StatusMore
	}
	var r Reply
	op := new(Op)
	op.AskFlushed(ticket)
	w.core.Apply(w.core.now, op, &r)
	if r.Status != status {
		w.t.Fatalf("whether %d is collected: status %d, want %d", ticket, r.Status, status)
	}
	return r
}

// TestFlushAndDelaysThatAreOver: more delays may be over than a visit looks after; jobs that
// become ready after the flush are not flushed.
func TestFlushAndDelaysThatAreOver(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	p.fill(3*expireMax, 5, 1)
	w.now += 10 * Second
	w.core.ensureCollection().most = 1
	x := new(OperatorOp) // its own visit lets some of them become ready
	n := w.do(Op{Kind: opFlush, Name: []byte("a"), N: uint32(StatesOf(Ready)), Operator: x}, StatusOK).N
	settle(w.core, w.now+Second)
	w.check()
	var s TubeStats
	w.do(Op{Kind: OpStatsTube, Name: []byte("a"), Figures: Figures{TubeStats: &s}}, StatusOK)
	if n == 0 || n == 3*expireMax || uint64(n)+s.Ready != 3*expireMax {
		t.Errorf("%d of %d jobs are flushed, %d are ready", n, 3*expireMax, s.Ready)
	}
}

// TestFlushIsCollectedInParts: no part comes right after another.
func TestFlushIsCollectedInParts(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	p.fill(2*collectMax+1, 5, 0)
	w.do(Op{Kind: OpClose, Client: p.id, Tube: p.tube}, StatusOK)
	c := w.flush("a", StatesOf(Ready), 2*collectMax+1)
	for _, left := range []int{collectMax + 1, 1, 0} {
		for range 3 { // what others do meanwhile does not make it quicker
			w.do(Op{Kind: OpStats, Figures: Figures{Counts: new(Counts)}}, StatusOK)
			if n := w.core.collection.jobs; n != left {
				t.Fatalf("%d are left, want %d", n, left)
			}
		}
		if open := w.core.names["a"] != nil; open != (left > 0) {
			t.Errorf("with %d left its tube is there: %v", left, open)
		}
		w.now = w.core.Next()
	}
	w.collected(c.Ticket, true)
	w.now = w.core.now
	q := w.join("b")
	q.fill(2*collectMax+1, 5, 0)
	w.flush("b", 0, 2*collectMax+1)
	if w.pass(Second); w.core.collection.jobs != 1 {
		t.Errorf("a part that comes late leaves %d", w.core.collection.jobs)
	}
	w.pass(Second)
	if w.core.Next() != Never {
		t.Errorf("something is to happen at %d", w.core.Next())
	}
}

// TestFlushedSubmissions: a client that waits hears that the job failed; the same submission
// makes a new job meanwhile.
func TestFlushedSubmissions(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{BuryFailed: true})
	s := newScribe(w.core)
	c, d, p := w.session(), w.session(), w.session()
	f := p.able("f", 0)
	c.submit("f", "u", "x", 1024, false, 1)
	d.submit("f", "u", "x", 1024, false, 1)
	c.submit("f", "v", "x", 1024, true, 2)
	c.submit("f", "-", "by its body", 1024, true, 3)
	d.submit("f", "w", "x", 1024, false, 4)
	p.grab(f, 1)
	w.core.ensureCollection().most = 1
	w.flush("f", 0, 3)
	w.do(Op{Kind: OpClose, Client: d.id}, StatusOK) // nobody wants job 4 any more
	c.submit("f", "v", "x", 1024, false, 5)
	c.submit("f", "-", "by its body", 1024, false, 6)
	for _, x := range []struct {
		unique string
		want   JobID
	}{{"u", 1}, {"v", 5}, {"w", 0}} {
		p.function.setUnique([]byte(x.unique))
		p.function.Cursor = 0
		status := StatusOK
		if x.want == 0 {
			status = StatusNotFound
		}
		if r := p.op(Op{Kind: opUniqueStatus}, status); r.ID != x.want {
			t.Errorf("%q is job %d, want %d", x.unique, r.ID, x.want)
		}
	}
	p.function.Cursor, p.function.Jobs = 0, nil
	p.op(Op{Kind: opListJobs}, StatusOK)
	if n := len(p.function.Jobs); n != 3 {
		t.Errorf("%d jobs are listed: %+v", n, p.function.Jobs)
	}
	for w.core.collection.jobs > 0 {
		w.pass(collectEvery)
	}
	c.hears()
	for id := JobID(2); id <= 4; id++ {
		if w.ended[id] != 1 {
			t.Errorf("job %d has ended %d times", id, w.ended[id])
		}
	}
	p.grab(f, 5, 6, 0)
	w.flush("f", 0, 0)
	p.report(5, RelayDone, "y", StatusOK)
	c.hears(fmt.Sprintf("%d*1:5:y", RelayDone))
	c.submit("f", "z", "x", 1024, false, 7)
	w.flush("f", 0, 1)
	w.pass(Second)
	c.hears(fmt.Sprintf("%d*1:7:", RelayFailed))
	w.again(s)
	if n := len(slices.Collect(w.core.Jobs())); n != 0 {
		t.Errorf("after a restart there are %d jobs", n)
	}
}

// TestDroppedFunctionWithFlushedJobs is one without jobs.
func TestDroppedFunctionWithFlushedJobs(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c := w.session()
	c.submit("f", "u", "x", 1024, true, 1)
	c.op(Op{Kind: opDropFunction, Name: []byte("f")}, StatusInUse)
	w.flush("f", 0, 1)
	c.op(Op{Kind: opDropFunction, Name: []byte("f")}, StatusOK)
	w.pass(Second)
	if w.core.names["f"] != nil || w.ended[1] != 1 {
		t.Errorf("the function is there, or job 1 has ended %d times", w.ended[1])
	}
}

// TestFlushIsDurableAtItsEnd: nobody is told that it is before the last Delete is.
func TestFlushIsDurableAtItsEnd(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	p.put(5, 0, 100)
	p.put(5, 0, 100)
	w.core.ensureCollection().most = 1
	c := w.flush("a", 0, 2)
	if len(s.buf.Data) > 0 && s.take() != nil {
		t.Fatal("the puts are not recorded")
	}
	if !w.core.RecordsTimers() {
		t.Error("the log is not opened for what is due")
	}
	for commit := uint64(2); commit <= 3; commit++ {
		w.collected(c.Ticket, false)
		s.buf.Commit = commit
		w.pass(collectEvery)
		if len(s.buf.Data) == 0 {
			t.Fatalf("in commit %d nothing is recorded", commit)
		}
		if err := s.take(); err != nil {
			t.Fatal(err)
		}
	}
	s.buf.Commit = 4
	if r := w.collected(c.Ticket, true); r.Commit != 3 {
		t.Errorf("it depends on commit %d, want 3", r.Commit)
	}
	if w.core.RecordsTimers() {
		t.Error("the log is opened for nothing")
	}
}

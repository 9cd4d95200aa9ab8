package core

import (
	"fmt"
	"slices"
	"testing"

	"polystalk/shard/stats"
)

// flush flushes jobs of a tube, and wants so many.
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

// TestFlushIsOneMoment: after it the jobs are gone for whoever asks, and those that workers
// hold are not.
func TestFlushIsOneMoment(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("a"), w.join("a")
	held := p.put(1, 0, 100)
	p.reserve(held)
	buried := p.put(2, 0, 100)
	q.reserve(buried)
	q.do(Op{Kind: OpBury, Client: q.id, ID: buried, Pri: 2}, StatusOK)
	ready, delayed := p.put(3, 0, 100), p.put(4, 5, 100)
	m := p.do(Op{Kind: OpMirror, Tube: p.tube}, StatusOK).Mirror
	c := w.flush("a", 0, 3)
	if c.Ready != 1 || c.Delayed != 1 || c.Buried != 1 {
		t.Errorf("flushed %+v", c)
	}
	for _, id := range []JobID{ready, delayed, buried} {
		for _, kind := range []opKind{OpPeek, OpDelete, OpReserveJob, OpKickJob} {
			p.on(kind, id, StatusNotFound)
		}
		p.do(Op{Kind: OpStatsJob, ID: id, Figures: Figures{JobStats: new(JobStats)}}, StatusNotFound)
		w.many(Action{Verb: VerbDelete, Force: true}, []JobID{id}, StatusNotFound)
	}
	for _, kind := range []opKind{OpPeekReady, OpPeekDelayed, OpPeekBuried} {
		p.do(Op{Kind: kind, Tube: p.tube}, StatusNotFound)
	}
	if n := p.kick(10); n != 0 {
		t.Errorf("kicked %d", n)
	}
	if k, ok := m.Load(); ok {
		t.Errorf("%v is published", k)
	}
	q.nothing()
	x := &OperatorOp{}
	w.do(Op{Kind: opScan, Operator: x}, StatusOK)
	if len(x.Jobs) != 1 || x.Jobs[0].ID != held {
		t.Errorf("a scan shows %+v", x.Jobs)
	}
	if n := len(slices.Collect(w.core.Jobs())); n != 1 {
		t.Errorf("there are %d jobs", n)
	}
	var s TubeStats
	w.do(Op{Kind: OpStatsTube, Name: []byte("a"), Figures: Figures{TubeStats: &s}}, StatusOK)
	if s.Ready+s.Urgent+s.Delayed+s.Buried != 0 || s.Reserved != 1 || s.Deletes != 3 || s.Total != 4 {
		t.Errorf("%+v", s)
	}
	n := w.core.Counts()
	if n.Ready+n.Urgent+n.Delayed+n.Buried != 0 || n.Reserved != 1 {
		t.Errorf("%+v", n)
	}
	if f := w.flowIn("a"); f.Events[stats.Flush] != 3 || f.Waiting {
		t.Errorf("%+v", f)
	}
	w.pass(6 * Second) // also its delay is over
	w.collected(c.Ticket, true)
	if n := w.core.jobs.Len(); n != 1 {
		t.Errorf("%d records are left", n)
	}
	if f := w.flowIn("a"); f.Bytes != uint64(len("job 1")) || f.Puts-f.Deletes != 1 {
		t.Errorf("%+v", f)
	}
	q.nothing()
	p.release(held, 1, 0)
	q.reserve(held)
}

// TestFlushLeavesWhatComesAfterIt, at the same moment and while the others are collected.
func TestFlushLeavesWhatComesAfterIt(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	var old, later []JobID
	fill := func() (ids []JobID) {
		for range 3 {
			id := p.put(1, 0, 100)
			p.reserve(id)
			p.do(Op{Kind: OpBury, Client: p.id, ID: id, Pri: 5}, StatusOK)
			ids = append(ids, id)
		}
		return append(ids, p.put(9, 5, 100), p.put(5, 0, 100))
	}
	old = fill()
	w.core.ensureCollection().most = 1
	w.flush("a", 0, 5)
	later = fill()
	for range 2 {
		for _, id := range later {
			p.on(OpPeek, id, StatusFound)
		}
		for _, id := range old {
			p.on(OpPeek, id, StatusNotFound)
		}
		w.pass(collectEvery)
	}
	c := w.flush("a", 0, 5) // before the first is collected
	for _, id := range later {
		p.on(OpPeek, id, StatusNotFound)
	}
	last := p.put(5, 0, 100)
	for n := 0; w.core.collection.jobs > 0; n++ {
		w.collected(c.Ticket, false)
		w.pass(collectEvery)
		if n > 10 {
			t.Fatalf("%d jobs are never collected", w.core.collection.jobs)
		}
	}
	w.collected(c.Ticket, true)
	p.reserve(last)
	if n := w.core.jobs.Len(); n != 1 {
		t.Errorf("%d records are left", n)
	}
}

// TestFlushAndDelaysThatAreOver: more delays may be over than a visit looks after; jobs that
// become ready after the flush are not of those that were.
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

// TestFlushByAMoment does nothing when others have come since.
func TestFlushByAMoment(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	p.put(5, 0, 100)
	seen := w.now
	w.pass(Second)
	p.put(5, 9, 100)
	x := &OperatorOp{Filter: Filter{EnteredBy: seen}}
	w.do(Op{Kind: opFlush, Name: []byte("a"), Operator: x}, StatusChanged)
	w.do(Op{Kind: opFlush, Name: []byte("a"), N: uint32(StatesOf(Delayed)), Operator: x}, StatusChanged)
	if w.core.counts.Ready+w.core.counts.Delayed != 2 {
		t.Errorf("%+v", w.core.counts)
	}
	if r := w.do(Op{Kind: opFlush, Name: []byte("a"), N: uint32(StatesOf(Ready, Buried)), Operator: x}, StatusOK); r.N != 1 {
		t.Errorf("flushed %d", r.N)
	}
	w.do(Op{Kind: opFlush, Name: []byte("unknown"), Operator: x}, StatusNotFound)
	if x.Flushed != (Flushed{}) {
		t.Errorf("%+v", x.Flushed)
	}
}

// TestFlushOfWhatWasCounted: of the same, if nothing came since, also at the same moment.
func TestFlushOfWhatWasCounted(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	p.put(5, 0, 100)
	p.put(5, 9, 100)
	count := func() Time {
		t.Helper()
		x := new(OperatorOp)
		r := w.do(Op{Kind: opFlush, Name: []byte("a"), Wait: true, Operator: x}, StatusOK)
		if r.N != 2 || x.Flushed.Ready != 1 || x.Flushed.Delayed != 1 || w.core.jobCount() != int(w.last) {
			t.Errorf("counted %d, %+v; there are %d", r.N, x.Flushed, w.core.jobCount())
		}
		return x.Flushed.At
	}
	x := &OperatorOp{Filter: Filter{EnteredBy: count()}}
	id := p.put(5, 0, 100)
	w.do(Op{Kind: opFlush, Name: []byte("a"), Operator: x}, StatusChanged)
	p.on(OpDelete, id, StatusOK)
	w.last--
	if r := w.do(Op{Kind: opFlush, Name: []byte("a"), Operator: x}, StatusOK); r.N != 2 {
		t.Errorf("flushed %d", r.N)
	}
}

// TestFlushIsCollectedInParts, of which none comes right after the one before.
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

// TestFlushedSubmissions: who waits hears that they have failed, and who submits the same
// meanwhile begins anew.
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

// TestFlushSparesWhatIsMoved: jobs that an operator has taken are not there for a flush, and
// are back in their order if it puts them back. A second flush finds them.
func TestFlushSparesWhatIsMoved(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	var ids []JobID
	for range 3 {
		id := p.put(1, 0, 100)
		p.reserve(id)
		p.do(Op{Kind: OpBury, Client: p.id, ID: id, Pri: 5}, StatusOK)
		ids = append(ids, id)
	}
	ids = append(ids, p.put(5, 0, 100), p.put(5, 9, 100))
	for range 3 {
		p.put(5, 0, 100)
		p.put(5, 9, 100)
	}
	w.taken(ids...)
	w.core.ensureCollection().most = 1
	w.flush("a", 0, 6)
	back := slices.Clone(ids)
	slices.Reverse(back)
	w.moves(VerbPutBack, back, StatusOK)
	for _, id := range ids {
		p.on(OpPeek, id, StatusFound)
	}
	if got := buriedIn(w.core, w.core.names["a"]); !slices.Equal(got, ids[:3]) {
		t.Errorf("buried are %v, want %v", got, ids[:3])
	}
	w.flush("a", StatesOf(Buried), 3) // before the first is collected
	p.on(OpPeek, ids[0], StatusNotFound)
	p.reserve(ids[3])
	w.pass(10 * Second)
	p.reserve(ids[4])
}

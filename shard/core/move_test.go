package core

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// taken takes jobs, all of which there are to be taken.
func (w *world) taken(ids ...JobID) *OperatorOp {
	w.t.Helper()
	return w.moves(VerbTake, ids, StatusOK)
}

// moves does a verb of a move to jobs: to all with the same result.
func (w *world) moves(v Verb, ids []JobID, want Status) *OperatorOp {
	w.t.Helper()
	x := &OperatorOp{Act: Action{Verb: v}, ids: ids}
	w.do(Op{Kind: opMany, Operator: x, Admitted: 1 << 30}, StatusOK)
	if !slices.Equal(x.Results, slices.Repeat([]Status{want}, len(ids))) {
		w.t.Fatalf("verb %d of %v: results %v, want %d", v, ids, x.Results, want)
	}
	return x
}

// copies puts what was read into a tube.
func (w *world) copies(name string, x *OperatorOp) (ids []JobID) {
	w.t.Helper()
	for range x.Jobs {
		w.last++
		ids = append(ids, w.last)
	}
	x.ids = ids
	if r := w.do(Op{Kind: opPutCopies, Name: []byte(name), Operator: x}, StatusOK); int(r.N) != len(ids) {
		w.t.Fatalf("%d of %d were put: %v", r.N, len(ids), x.Results)
	}
	return ids
}

// TestCopyIsLikeTheJob, in whatever state that is, also after a restart.
func TestCopyIsLikeTheJob(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	ready, delayed, buried, held := p.put(5, 0, 10), p.put(6, 100, 20), p.put(1, 0, 30), p.put(0, 0, 100)
	p.reserve(held)
	p.reserve(buried)
	p.do(Op{Kind: OpBury, Client: p.id, ID: buried, Pri: 7}, StatusOK)
	w.pass(40 * Second)
	x := w.moves(VerbRead, []JobID{ready, delayed, buried, held}, StatusOK)
	w.pass(2 * Second) // until they are put
	copies := w.copies("b", x)
	w.isIn(held, Reserved)
	for range 2 {
		for k, id := range copies {
			want := x.Jobs[k].JobStats
			want.ID, want.Tube, want.Commit = id, "b", 0
			want.Age += 2 * Second
			switch want.State {
			case Delayed:
				want.Delay, want.TimeLeft = 58, 58*Second // what was left of it
			case Reserved:
				want.State, want.TimeLeft = Ready, 0
			}
			got := w.stats(id)
			got.Commit = 0
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		w.again(s)
	}
	q := w.join("b")
	q.reserve(copies[3])
	if r := q.reserve(copies[0]); string(r.Body) != "job 1" {
		t.Errorf("the body %q", r.Body)
	}
	q.nothing()
}

// TestCopyGoesToWhoWaits, as any job that is put; and a delay that has ended meanwhile has.
func TestCopyGoesToWhoWaits(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	id := p.put(5, 3, 10)
	x := w.moves(VerbRead, []JobID{id}, StatusOK)
	w.pass(3 * Second)
	q := w.join("b")
	q.wait(Never)
	w.copies("b", x)
	w.wakes(fmt.Sprintf("%d: status %d job 2 %q", q.id, StatusReserved, "job 1"))
}

// TestTakenJobIsNobodys: nobody gets it, and nobody changes it, an operator neither.
func TestTakenJobIsNobodys(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("a"), w.join("a")
	ready, delayed, buried := p.put(5, 0, 10), p.put(5, 9, 10), p.put(1, 0, 10)
	p.reserve(buried)
	p.on(OpBury, buried, StatusOK)
	all := []JobID{ready, delayed, buried}
	w.taken(all...)
	q.nothing()
	if n := p.kick(10); n != 0 {
		t.Errorf("%d were kicked", n)
	}
	for _, id := range all {
		for _, op := range []opKind{OpDelete, OpRelease, OpBury, OpTouch, OpKickJob, OpReserveJob} {
			p.do(Op{Kind: op, Client: p.id, ID: id}, StatusNotFound)
			p.do(Op{Kind: op, ID: id}, StatusNotFound)
		}
		p.do(Op{Kind: OpPeek, ID: id}, StatusFound)
		if s := w.stats(id); s.State != Reserved || s.TimeLeft != 0 || s.Reserves > 1 {
			t.Errorf("%+v", s)
		}
	}
	for _, force := range []bool{false, true} {
		for v := VerbDelete; v <= VerbSet; v++ {
			w.many(Action{Verb: v, Force: force, Changes: ChangePri}, all, StatusMoving, StatusMoving, StatusMoving)
		}
		x := &OperatorOp{Act: Action{Changes: ChangePri, Force: force}}
		w.do(Op{Kind: opEdit, ID: ready, Operator: x}, StatusMoving)
	}
	w.moves(VerbTake, all, StatusMoving) // another move
	w.moves(VerbRead, all, StatusOK)     // a copy
	x := new(OperatorOp)
	w.do(Op{Kind: opScan, Operator: x}, StatusOK)
	for i := range x.Jobs {
		if row := &x.Jobs[i]; !row.Moving || row.Client != 0 || row.State != Reserved {
			t.Errorf("a scan shows %+v", row)
		}
	}
	x = new(OperatorOp)
	if w.do(Op{Kind: opHolders, Operator: x}, StatusOK); len(x.Jobs) != 0 {
		t.Errorf("%+v are held", x.Jobs)
	}
	w.do(Op{Kind: OpClose, Client: p.id, Tube: p.tube}, StatusOK)
	w.do(Op{Kind: OpClose, Client: q.id, Tube: q.tube}, StatusOK)
	w.moves(VerbDrop, all, StatusOK)
	w.moves(VerbDrop, all, StatusNotFound)
	if _, ok := w.core.names["a"]; ok || w.core.moving != nil {
		t.Error("the tube is there, or something is still taken")
	}
}

// TestOnlyWhatIsFreeIsTaken: and only what was taken is put back or dropped.
func TestOnlyWhatIsFreeIsTaken(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	held, free := p.put(5, 0, 10), p.put(5, 0, 10)
	p.reserve(held)
	w.moves(VerbTake, []JobID{held}, StatusInUse)
	for _, v := range []Verb{VerbPutBack, VerbDrop} {
		w.moves(v, []JobID{held, free}, StatusUnfit)
		w.moves(v, []JobID{77}, StatusNotFound)
	}
	w.isIn(held, Reserved)
	p.on(OpTouch, held, StatusOK)
}

// TestPutBackIsAsBefore: in order of age, in order of priority and id, under its own delay,
// and in the order of a kick.
func TestPutBackIsAsBefore(t *testing.T) {
	for _, s := range []State{Ready, Delayed, Buried} {
		w := newWorld(t)
		p := w.join("a")
		const jobs = 40
		for n := range jobs {
			if n%4 == 0 {
				w.pass(Second / 2) // several of the same moment
			}
			delay := uint32(0)
			if s == Delayed {
				delay = uint32(100 + n*7%13)
			}
			id := p.put(uint32(n*5%3), delay, 10)
			if s == Buried {
				w.many(Action{Verb: VerbBury}, []JobID{id}, StatusOK)
			}
		}
		lists := func() (all [][]JobID) {
			for _, op := range []Op{{Kind: opList, N: uint32(s)}, {Kind: opHead, N: uint32(s)}} {
				op.Name, op.Operator = []byte("a"), new(OperatorOp)
				w.do(op, StatusOK)
				var ids []JobID
				for i := range op.Operator.Jobs {
					ids = append(ids, op.Operator.Jobs[i].ID)
				}
				all = append(all, ids)
			}
			return all
		}
		was, stats := lists(), w.core.tubeStats(w.core.names["a"])
		var before []JobStats
		for id := range JobID(jobs) {
			before = append(before, w.stats(id+1))
		}
		for _, order := range [][]JobID{was[0], was[1], {was[0][7], was[0][20], was[0][8], was[0][6]}, {was[0][jobs-1]}} {
			w.taken(order...)
			if n := len(lists()[0]); n != jobs-len(order) {
				t.Errorf("%s: %d are left of %d, when %d are taken", s, n, jobs, len(order))
			}
			back := slices.Clone(order)
			slices.Reverse(back)
			w.moves(VerbPutBack, back, StatusOK)
			if now := lists(); !slices.Equal(now[0], was[0]) || !slices.Equal(now[1], was[1]) {
				t.Errorf("%s: the lists are\n%v, were\n%v", s, now, was)
			}
		}
		for id, want := range before {
			if got := w.stats(JobID(id + 1)); got != want {
				t.Errorf("%s: %+v, was %+v", s, got, want)
			}
		}
		if now := w.core.tubeStats(w.core.names["a"]); now != stats {
			t.Errorf("%s: %+v, was %+v", s, now, stats)
		}
	}
}

// TestPutBackFindsItsPlace though those that were beside it have gone, in bounded visits.
func TestPutBackFindsItsPlace(t *testing.T) {
	const jobs = 3 * visitWork
	for _, at := range []int{1, jobs / 4, jobs / 2, jobs - 3*visitWork/4, jobs} {
		w := newWorld(t)
		p := w.join("a")
		for range jobs {
			w.now++
			p.last++
			w.core.Apply(w.now, &Op{Kind: OpPut, Tube: p.tube, ID: p.last, TTR: 10}, new(Reply))
		}
		id := JobID(at)
		w.taken(id)
		for _, o := range []JobID{id - 1, id + 1} {
			w.core.Apply(w.now, &Op{Kind: OpDelete, ID: o}, new(Reply))
		}
		visits := 0
		for status := StatusMore; status == StatusMore; visits++ {
			x := &OperatorOp{Act: Action{Verb: VerbPutBack}, ids: []JobID{id}}
			w.do(Op{Kind: opMany, Operator: x}, StatusOK)
			if status = x.Results[0]; visits > 4 || status != StatusOK && status != StatusMore {
				t.Fatalf("visit %d: status %d", visits, status)
			}
		}
		if far := min(at, jobs-at) > visitWork; far != (visits > 1) {
			t.Errorf("job %d of %d is put back in %d visits", at, jobs, visits)
		}
		last := Time(0)
		for i := w.core.names["a"].readyList.Head; i != 0; i = w.core.jobs.At(i).Next {
			if now := w.core.jobs.At(i).Since; now <= last {
				t.Fatalf("job %d is out of order", w.core.jobs.At(i).ID)
			} else {
				last = now
			}
		}
		w.check()
	}
}

// TestPutBackAfterItsTime: a delay that has ended meanwhile has, and who waits gets the job.
func TestPutBackAfterItsTime(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	first, second := p.put(5, 2, 10), p.put(5, 0, 10)
	w.taken(first, second)
	w.pass(5 * Second)
	p.wait(Never)
	w.moves(VerbPutBack, []JobID{second}, StatusOK)
	w.wakes(p.gets(second))
	p.wait(Never)
	w.moves(VerbPutBack, []JobID{first}, StatusOK)
	w.pass(0)
	w.wakes(p.gets(first))
}

// TestTakenJobIsInNoRecord: a crash in the middle of a move brings everything back as it was,
// also what the journal has copied meanwhile.
func TestTakenJobIsInNoRecord(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	ready, delayed, buried := p.put(5, 0, 10), p.put(5, 100, 10), p.put(1, 0, 10)
	p.reserve(buried)
	p.on(OpBury, buried, StatusOK)
	all := []JobID{ready, delayed, buried}
	var before []JobStats
	for _, id := range all {
		before = append(before, w.stats(id))
	}
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	w.taken(all...)
	if len(s.buf.Data) != 0 {
		t.Error("to take a job is recorded")
	}
	for _, id := range all {
		w.core.CopyJob(id, 1<<40)
	}
	w.again(s)
	for k, id := range all {
		got, want := w.stats(id), before[k]
		if got.Commit, want.Commit = 0, 0; got != want {
			t.Errorf("%+v, was %+v", got, want)
		}
	}
}

// TestMovedJobSurvivesWhenever: at any moment of a move the records hold the job, or its copy,
// or both.
func TestMovedJobSurvivesWhenever(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	id := w.join("a").put(5, 0, 10)
	there := func(want ...JobID) {
		t.Helper()
		if err := s.take(); err != nil {
			t.Fatal(err)
		}
		c, _, err := s.replay(w.now, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var ids []JobID
		c.EachID(func(id JobID) { ids = append(ids, id) })
		slices.Sort(ids)
		if !slices.Equal(ids, want) {
			t.Errorf("after a crash there are %v, want %v", ids, want)
		}
	}
	x := w.taken(id)
	there(id)
	copies := w.copies("b", x)
	there(id, copies[0])
	w.moves(VerbDrop, []JobID{id}, StatusOK)
	there(copies[0])
}

// TestTakingIsBounded by the bodies that it copies; and a large body needs room.
func TestTakingIsBounded(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	body := bytes.Repeat([]byte("x"), 60_000)
	var ids []JobID
	for range 10 {
		p.last++
		ids = append(ids, p.last)
		p.do(Op{Kind: OpPut, Tube: p.tube, ID: p.last, TTR: 9, Body: body}, StatusOK)
	}
	x := &OperatorOp{Act: Action{Verb: VerbTake}, ids: ids}
	w.do(Op{Kind: opMany, Operator: x}, StatusOK)
	const fit = takenMost / 60_000
	if len(x.Jobs) != fit || x.Results[fit-1] != StatusOK || x.Results[fit] != StatusMore || len(x.Results) != fit+1 {
		t.Errorf("%d of %d are taken: %v", len(x.Jobs), fit, x.Results)
	}
	w.isIn(ids[fit], Ready)
	p.last++
	p.do(Op{Kind: OpPut, Tube: p.tube, ID: p.last, TTR: 9, Large: Large{make([]byte, 70_000)}}, StatusOK)
	large := &OperatorOp{Act: Action{Verb: VerbTake}, ids: []JobID{p.last}}
	for _, admitted := range []uint32{69_999, 70_000} {
		w.do(Op{Kind: opMany, Operator: large, Admitted: admitted}, StatusOK)
		if want := admitted == 70_000; want != (large.Results[0] == StatusOK) || !want && large.Results[0] != StatusUnadmitted {
			t.Errorf("with %d bytes admitted: %v", admitted, large.Results)
		}
	}
	if b := w.copies("b", large); w.do(Op{Kind: OpPeek, ID: b[0]}, StatusFound).Large.Len() != 70_000 {
		t.Error("its copy has another body")
	}
}

// TestMoveOfSubmittedJobs: one that somebody waits for stays, and so does one with a reducer;
// another becomes one that was put, and what is submitted meanwhile does not join it.
func TestMoveOfSubmittedJobs(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c := w.session()
	c.submit("f", "u", "x", 1024, false, 1)
	c.submit("f", "v", "x", 1024, true, 2)
	w.moves(VerbTake, []JobID{1}, StatusAwaited)
	x := w.taken(2)
	w.do(Op{Kind: opCancelJob, ID: 2, Function: &c.function}, StatusNotFound)
	c.submit("f", "v", "y", 1024, true, 3)
	w.copies("g", x) // 4
	w.moves(VerbDrop, []JobID{2}, StatusOK)
	w.isOver(2)
	x = w.moves(VerbRead, []JobID{1}, StatusOK)
	w.copies("g", x) // 5
	for _, id := range []JobID{4, 5} {
		if _, j, g := w.core.find(id); j.isSubmitted() || g.name != "g" || j.ttr() != noTTR {
			t.Errorf("job %d in %q: %+v", id, g.name, j)
		}
	}
	w.taken(3)
	w.moves(VerbPutBack, []JobID{3}, StatusOK)
	c.submit("f", "v", "z", 1024, true, 3) // joins it again
	c.function.setUnique(nil)
	c.function.setReducer([]byte("red"))
	r := w.do(Op{Kind: opSubmit, Client: c.id, Name: []byte("f"), Body: []byte("b"), Function: &c.function}, StatusOK)
	w.moves(VerbRead, []JobID{r.ID}, StatusUnfit)
}

// TestCopyOfATakenJob is like the job before it was taken: what is delayed or buried does not
// become ready because somebody else moves it just then.
func TestCopyOfATakenJob(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	delayed, buried := p.put(1, 1000, 10), p.put(1, 0, 10)
	p.reserve(buried)
	p.do(Op{Kind: OpBury, Client: p.id, ID: buried, Pri: 1}, StatusOK)
	w.taken(delayed, buried)
	w.pass(300 * Second)
	ids := w.copies("b", w.moves(VerbRead, []JobID{delayed, buried}, StatusOK))
	w.isIn(ids[0], Delayed)
	w.isIn(ids[1], Buried)
	if left := w.stats(ids[0]).TimeLeft; left != 700*Second {
		t.Errorf("the copy is delayed for %v", left)
	}
}

// TestNoCopyOfWhatIsOver: a submitted job that runs, and has ended for all but its worker.
func TestNoCopyOfWhatIsOver(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c, p := w.session(), w.session()
	f := p.able("f", 0)
	c.submit("f", "u", "x", 1024, true, 1)
	p.grab(f, 1)
	w.moves(VerbRead, []JobID{1}, StatusOK)
	w.do(Op{Kind: opCancelJob, ID: 1, Function: &c.function}, StatusOK)
	w.moves(VerbRead, []JobID{1}, StatusNotFound)
}

// BenchmarkMove takes, puts and drops a visit's number of jobs of random priorities.
func BenchmarkMove(b *testing.B) {
	w := newBench(b)
	w.Apply(w.now, &Op{Kind: OpJoin, Name: []byte("other"), Waiter: new(Waiter)}, &w.reply)
	ids, copies := make([]JobID, actMax), make([]JobID, actMax)
	for k := range ids {
		w.put.Pri = w.put.Pri*1664525 + 1013904223
		w.putOne()
		ids[k] = w.last
	}
	x := new(OperatorOp)
	op, r := new(Op), new(Reply)
	from, to := []byte("default"), []byte("other")
	for b.Loop() {
		x.Act.Verb, x.Jobs, x.Bodies = VerbTake, x.Jobs[:0], x.Bodies[:0]
		op.ActOnMany(ids, x)
		w.Apply(w.now, op, r)
		for k := range copies {
			w.last++
			copies[k] = w.last
		}
		op.PutCopies(to, copies, x)
		w.Apply(w.now, op, r)
		x.Act.Verb = VerbDrop
		op.ActOnMany(ids, x)
		w.Apply(w.now, op, r)
		ids, copies, from, to = copies, ids, to, from
	}
	if n := w.Counts().Ready; n != actMax {
		b.Errorf("%d jobs are left of %d", n, actMax)
	}
}

package core

import (
	"bytes"
	"slices"
	"testing"
)

// taken takes jobs, which must all be free.
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

package core

import (
	"fmt"
	"slices"
	"testing"
)

// many does the same to several jobs.
func (w *world) many(a Action, ids []JobID, want ...Status) {
	w.t.Helper()
	x := &OperatorOp{Act: a, ids: ids}
	w.do(Op{Kind: opMany, Operator: x}, StatusOK)
	if !slices.Equal(x.Results, want) {
		w.t.Fatalf("results %v, want %v", x.Results, want)
	}
}

// TestFlushStepIsBounded, and comes to its end: also if that is the end of the tube.
func TestFlushStepIsBounded(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	p.fill(2*actMax+10, 5, 0)
	w.do(Op{Kind: OpClose, Client: p.id, Tube: p.tube}, StatusOK)
	x := &OperatorOp{Act: Action{Verb: VerbDelete}}
	for visit, want := range []uint32{actMax, actMax, 10} {
		status := StatusMore
		if want < actMax {
			status = StatusOK
		}
		if r := w.do(Op{Kind: opFlushStep, Name: []byte("a"), N: uint32(Ready), Operator: x}, status); r.N != want {
			t.Errorf("visit %d deletes %d, want %d", visit, r.N, want)
		}
	}
	w.do(Op{Kind: opFlushStep, Name: []byte("a"), N: uint32(Ready), Operator: x}, StatusNotFound)
}

// TestEditWantsWhatItHasSeen: a job that has changed is not changed over that.
func TestEditWantsWhatItHasSeen(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	id := p.put(5, 0, 10)
	x := &OperatorOp{Act: Action{Changes: ChangeBody | ChangeTTR | ChangePri, TTR: 77, Pri: 8}}
	w.do(Op{Kind: opJob, ID: id, Operator: x}, StatusOK)
	seen := x.Version
	p.reserve(id)
	p.release(id, 5, 0)
	w.do(Op{Kind: opEdit, ID: id, Seq: seen, Body: []byte("mended"), Operator: x}, StatusChanged)
	w.do(Op{Kind: opJob, ID: id, Operator: x}, StatusOK)
	w.do(Op{Kind: opEdit, ID: id, Seq: x.Version, Body: []byte("mended"), Operator: x}, StatusOK)
	edited := x.Version
	w.do(Op{Kind: opJob, ID: id, Operator: x}, StatusOK)
	if x.Version != edited || edited == seen {
		t.Errorf("versions %d, edited %d, now %d", seen, edited, x.Version)
	}
	w.again(s)
	if st := w.stats(id); st.TTR != 77 || st.Pri != 8 || st.Releases != 1 {
		t.Errorf("after a restart %+v", st)
	}
	if r := w.join("a").reserve(id); string(r.Body) != "mended" {
		t.Errorf("after a restart its body is %q", r.Body)
	}
}

// TestVersionOfALargeBody changes with each body, also for a like one in its place, and does not read
// the body, which would take a visit as long as the body is. After a restart bodies are numbered
// from one again, and yet an operator that has seen another body changes nothing.
func TestVersionOfALargeBody(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	p.last++
	like := func() Large { return Large{make([]byte, 70_000)} }
	body := like()
	p.do(Op{Kind: OpPut, Tube: p.tube, ID: p.last, TTR: 9, Large: body}, StatusOK)
	version := func() uint64 {
		x := &OperatorOp{}
		w.do(Op{Kind: opJob, ID: p.last, Operator: x}, StatusOK)
		return x.Version
	}
	first := version()
	body[0][5]++ // no caller may: it shows whether the core reads it
	if got := version(); got != first {
		t.Error("the body was read")
	}
	x := &OperatorOp{Act: Action{Changes: ChangeBody}}
	for _, large := range []Large{like(), nil, like()} {
		seen := version()
		w.do(Op{Kind: opEdit, ID: p.last, Seq: seen, Large: large, Operator: x}, StatusOK)
		if got := version(); got != x.Version || got == seen || got == first {
			t.Errorf("versions: first %d, seen %d, edited %d, now %d", first, seen, x.Version, got)
		}
	}
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	last := s.segments[len(s.segments)-1]
	last.recs = last.recs[len(last.recs)-3:] // the journal has forgotten all bodies but the last
	w.now += Second
	w.again(s)
	w.do(Op{Kind: opEdit, ID: p.last, Seq: first, Large: like(), Operator: x}, StatusChanged)
}

// TestOperatorAndSubmittedJobs: waiting clients are told, and nothing that they rely on changes.
func TestOperatorAndSubmittedJobs(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c, p := w.session(), w.session()
	f := p.able("f", 0)
	c.submit("f", "u", "x", 1024, false, 1)
	c.submit("f", "v", "x", 1024, false, 2)
	c.submit("f", "w", "x", 1024, false, 3)
	w.many(Action{Verb: VerbDelete}, []JobID{1}, StatusOK)
	w.isOver(1)
	p.grab(f, 2)
	w.many(Action{Verb: VerbDelete, Force: true}, []JobID{2}, StatusOK)
	p.report(2, RelayDone, "late", StatusOK) // unheard
	w.isOver(2)
	x := &OperatorOp{Act: Action{Changes: ChangeBody}}
	w.do(Op{Kind: opEdit, ID: 3, Body: []byte("y"), Operator: x}, StatusUnfit)
	w.many(Action{Verb: VerbSet, Changes: ChangeTTR, TTR: 5}, []JobID{3}, StatusUnfit)
	w.many(Action{Verb: VerbBury}, []JobID{3}, StatusOK)
	c.hears(fmt.Sprintf("%d*1:1:", RelayFailed), fmt.Sprintf("%d*1:2:", RelayFailed), fmt.Sprintf("%d*1:3:", RelayFailed))
	w.isIn(3, Buried)
	w.do(Op{Kind: opEdit, ID: 3, Body: []byte("y"), Operator: x}, StatusOK) // nobody waits any more
}

// TestEditWakesNobody: a worker that sleeps although a job is ready, since it came to the
// function asleep, is not told of that job because somebody edits it; only if it was delayed.
func TestEditWakesNobody(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c, p := w.session(), w.session()
	c.submit("f", "u", "x", 1024, true, 1)
	p.mail.Sleep()
	p.able("f", 0)
	p.function.Sleepers.Add(1)
	edit := func(a Action) {
		t.Helper()
		w.do(Op{Kind: opEdit, ID: 1, Operator: &OperatorOp{Act: a}}, StatusOK)
	}
	edit(Action{Changes: ChangePri, Pri: 1024})
	p.hears()
	edit(Action{Changes: ChangePri, Pri: 7})
	p.hears()
	edit(Action{Changes: ChangeDelay, Delay: 5})
	p.hears()
	edit(Action{Changes: ChangeDelay})
	p.hears("noop")
}

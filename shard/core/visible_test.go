package core

import (
	"strings"
	"testing"
)

// TestHiddenJobsAndFunctionsDoNotExist, except for a client that waits for the job.
func TestHiddenJobsAndFunctionsDoNotExist(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	a, b := w.session(), w.session()
	a.submit("open", "u", "x", 1024, true, 1)
	a.submit("closed", "u", "x", 1024, false, 2)
	a.submit("closed", "v", "x", 1024, true, 3)
	p := a.able("closed", 0)
	for _, s := range []*functionPeer{a, b} {
		s.function.Visible = func(tube string) bool { return tube == "open" }
	}
	if r := a.op(Op{Kind: opJobStatus, ID: 2}, StatusOK); r.ID != 2 {
		t.Errorf("a client does not see the job that it waits for: %+v", r)
	}
	for _, id := range []JobID{2, 3, 9} {
		b.op(Op{Kind: opCancelJob, ID: id}, StatusNotFound)
		if r := b.op(Op{Kind: opJobStatus, ID: id}, StatusNotFound); r.ID != 0 {
			t.Errorf("job %d: %+v", id, r)
		}
	}
	unique := func(s *functionPeer, unique string, want JobID) {
		t.Helper()
		s.function.setUnique([]byte(unique))
		s.function.ByBody, s.function.Cursor = false, 0
		status := StatusOK
		if want == 0 {
			status = StatusNotFound
		}
		if r := s.op(Op{Kind: opUniqueStatus}, status); r.ID != want {
			t.Errorf("%q is job %d, want %d", unique, r.ID, want)
		}
	}
	unique(a, "u", 2)
	unique(b, "u", 1)
	unique(b, "v", 0)
	b.function.Cursor = 0
	b.op(Op{Kind: opListJobs}, StatusOK)
	b.function.Cursor = 0
	b.op(Op{Kind: opListFunctions}, StatusOK)
	if f := &b.function; len(f.Jobs) != 1 || f.Jobs[0].ID != 1 || len(f.Functions) != 1 || f.Functions[0].Name != "open" {
		t.Errorf("jobs %+v, functions %+v", f.Jobs, f.Functions)
	}
	// What is hidden does not change what a worker gets.
	a.grab(p, 2, 3)
	b.op(Op{Kind: opCancelJob, ID: 1}, StatusOK)
	w.isOver(1)
}

// TestVisitIsShortIfAllIsHidden: the visits of a list are bounded by what they look at.
func TestVisitIsShortIfAllIsHidden(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	p := w.session()
	const n = 2 * boundedMax
	for i := range n {
		p.submit(strings.Repeat("f", 1+i%100)+string(rune('a'+i/100)), "", "x", 1024, true, JobID(i+1))
	}
	asked, most := 0, 0
	p.function.Visible = func(string) bool { asked++; return false }
	for _, kind := range []opKind{opListJobs, opListFunctions} {
		visits := 0
		for p.function.Cursor = 0; ; visits++ {
			asked = 0
			op := Op{Kind: kind, Function: &p.function, Client: p.id}
			var r Reply
			w.core.Apply(w.now, &op, &r)
			if most = max(most, asked); r.Status != StatusMore {
				break
			}
		}
		if visits < 8 {
			t.Errorf("operation %d had %d visits", kind, visits)
		}
	}
	if len(p.function.Jobs)+len(p.function.Functions) != 0 || most > boundedMax/8 || most == 0 {
		t.Errorf("a visit looked at %d; %d jobs are shown", most, len(p.function.Jobs))
	}
}

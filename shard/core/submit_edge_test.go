package core

import (
	"fmt"
	"testing"
)

// A worker gives up a function with very many of its running jobs, among others: they
// go back in parts, and in the order in which it took them.
func TestUnregisterIsBounded(t *testing.T) {
	p := newFunctionWorld(t, SubmitOptions{}).session()
	f, g := p.able("f", 0), p.able("g", 0)
	const jobs = 2*boundedMax + 10
	for id := JobID(1); id <= jobs; id += 2 {
		p.submit("f", "", "x", 1024, true, id)
		p.submit("g", "", "x", 1024, true, id+1)
		p.grab(f, id)
		p.grab(g, id+1)
	}
	check := func(visits int, op Op) {
		t.Helper()
		for range visits - 1 {
			p.op(op, StatusMore)
		}
		p.op(op, StatusOK)
	}
	check(3, Op{Kind: opUnregister, Tube: f})
	p.report(1, RelayData, "", StatusNotFound)
	p.report(2, RelayData, "", StatusOK)
	p.report(jobs, RelayData, "", StatusOK)
	f = p.able("f", 0)
	for id := JobID(1); id <= jobs; id += 2 {
		p.grab(f, id)
	}
	p.grab(f, 0)
	check(3, Op{Kind: opUnregister}) // all
	p.report(jobs, RelayData, "", StatusNotFound)
	if held := p.core.clients[p.id].held.N; held != 0 {
		t.Errorf("%d jobs are held", held)
	}
}

func TestUnregisterAllIsBounded(t *testing.T) {
	p := newFunctionWorld(t, SubmitOptions{}).session()
	for i := range 2*boundedMax + 10 {
		p.able(fmt.Sprint(i), 0)
	}
	p.op(Op{Kind: opUnregister}, StatusMore)
	p.op(Op{Kind: opUnregister}, StatusMore)
	p.op(Op{Kind: opUnregister}, StatusOK)
	for _, f := range p.core.tubes[1:] {
		if f.watching > 0 {
			t.Fatalf("%s has a worker", f.name)
		}
	}
}

// Many functions have a job with the same unique id: each is found in its own, and
// the newest of all when only the id is asked for, in parts.
func TestUniqueIDOfManyFunctions(t *testing.T) {
	p := newFunctionWorld(t, SubmitOptions{}).session()
	const functions = 2*boundedMax + 10
	for i := range JobID(functions) {
		p.submit(fmt.Sprint(i), "u", "x", 1024, true, i+1)
	}
	for i := range JobID(functions) {
		p.submit(fmt.Sprint(i), "u", "x", 1024, true, i+1) // joins
	}
	p.op(Op{Kind: opCancelJob, ID: functions}, StatusOK)
	newest := JobID(0)
	p.function.Cursor = 0
	for _, want := range []Status{StatusMore, StatusMore, StatusOK} {
		newest = max(newest, p.op(Op{Kind: opUniqueStatus}, want).ID)
	}
	if newest != functions-1 {
		t.Errorf("job %d", newest)
	}
}

// The question for a unique id costs the same however many functions there are.
func TestUniqueIDAmongManyFunctions(t *testing.T) {
	p := newFunctionWorld(t, SubmitOptions{}).session()
	const functions = 10 * boundedMax
	for i := range JobID(functions) { // without do, which checks the whole core each time
		p.function.Background, p.function.Due = true, 0
		p.function.setUnique(fmt.Append(nil, "u", i))
		var r Reply
		p.core.Apply(p.now, made(&Op{Kind: opSubmit, Client: p.id, Function: &p.function, Name: fmt.Append(nil, i), Pri: 1024, Body: []byte("x")}), &r)
		if r.Status != StatusOK || r.ID != i+1 {
			t.Fatalf("status %d, job %d, want job %d", r.Status, r.ID, i+1)
		}
	}
	p.check()
	p.function.setUnique([]byte("none"))
	p.function.Cursor = 0
	p.op(Op{Kind: opUniqueStatus}, StatusNotFound)
	p.function.setUnique([]byte("u77"))
	p.function.Cursor = 0
	if r := p.op(Op{Kind: opUniqueStatus}, StatusOK); r.ID != 78 {
		t.Errorf("job %d", r.ID)
	}
}

// A timeout that lasts longer than time itself is none.
func TestVeryLongTimeout(t *testing.T) {
	p := newFunctionWorld(t, SubmitOptions{}).session()
	f := p.able("f", Never-1)
	p.submit("f", "", "x", 1024, true, 1)
	p.grab(f, 1)
	p.pass(Second)
	p.report(1, RelayData, "", StatusOK)
}

// The memory of many clients that have waited goes back.
func TestWaitsAreForgotten(t *testing.T) {
	p := newFunctionWorld(t, SubmitOptions{}).session()
	const jobs = 2 * followerListsKept
	for range 2 {
		first := p.last + 1
		for id := first; id < first+jobs; id++ {
			p.submit("f", "", "x", 1024, false, id)
		}
		for id := first; id < first+jobs; id++ {
			p.op(Op{Kind: opCancelJob, ID: id}, StatusOK)
		}
		if g := p.core.submissions; len(g.followers) != 1 || len(g.freeFollowers) != 0 {
			t.Fatalf("%d lists, %d free", len(g.followers), len(g.freeFollowers))
		}
	}
}

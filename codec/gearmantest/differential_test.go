package gearmantest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestHistoriesAreReproducible(t *testing.T) {
	a, b := NewHistory(7, 2000), NewHistory(7, 2000)
	if !reflect.DeepEqual(a, b) {
		t.Error("one seed makes two histories")
	}
	if reflect.DeepEqual(a.Events, NewHistory(8, 2000).Events) {
		t.Error("two seeds make one history")
	}
	seen := map[Op]bool{}
	for _, e := range a.Events {
		for _, action := range e.Actions {
			seen[action.Op] = true
		}
	}
	if len(seen) != int(NumOps) {
		t.Errorf("%d of %d kinds of request in 2000", len(seen), NumOps)
	}
}

func TestShrinkFindsTheSmallest(t *testing.T) {
	h := NewHistory(3, 1000)
	has := func(e []Event, op Op) int {
		return slices.IndexFunc(e, func(e Event) bool {
			return slices.ContainsFunc(e.Actions, func(a Action) bool { return a.Op == op })
		})
	}
	fails := func(h History) bool {
		i := has(h.Events, OpCancel)
		return i >= 0 && has(h.Events[i:], OpSetID) >= 0
	}
	if !fails(h) {
		t.Fatal("this history is of no use")
	}
	small := shrink(h, 1000, fails)
	requests := 0
	for _, e := range small.Events {
		requests += len(e.Actions)
	}
	if !fails(small) || len(small.Events) > 2 || requests > 2 {
		t.Errorf("%d events with %d requests are left", len(small.Events), requests)
	}
	if !fails(h) {
		t.Error("the history itself was changed")
	}
}

func TestDiffer(t *testing.T) {
	mark := message{packetTypes["ECHO_RES"], markPrefix + "1"}
	noop, created := message{packetTypes["NOOP"], ""}, message{packetTypes["JOB_CREATED"], "H:lap:1"}
	one, two := message{packetTypes["WORK_DATA"], "H:lap:1\x00a"}, message{packetTypes["WORK_DATA"], "H:lap:1\x00b"}
	for name, tt := range map[string]struct {
		a, b               []message
		ordered, unordered bool
		same, final        bool
	}{
		"equal":             {a: []message{created, mark}, b: []message{created, mark}, same: true},
		"late report":       {a: []message{one, created, mark}, b: []message{created, mark, one}, same: true},
		"report to come":    {a: []message{one, two, mark}, b: []message{mark, one}},
		"reports exchanged": {a: []message{one, two}, b: []message{two, one}, final: true},
		"in any order":      {a: []message{one, two}, b: []message{two, one}, unordered: true, same: true},
		"other answer":      {a: []message{created, mark}, b: []message{mark}, final: true},
		"noop missing":      {a: []message{noop, mark}, b: []message{mark}},
		"one noop too much": {a: []message{mark, noop}, b: []message{mark, noop, noop}},
		"noop too late":     {a: []message{noop, created, mark}, b: []message{created, noop, mark}, ordered: true, final: true},
		"mark in between":   {a: []message{noop, created, mark}, b: []message{noop, mark, created}, ordered: true, final: true},
	} {
		why, final := differ(tt.a, tt.b, tt.ordered, tt.unordered)
		if (why == "") != tt.same || final != tt.final {
			t.Errorf("%s: %q, final %t", name, why, final)
		}
	}
}

func TestExorcise(t *testing.T) {
	k := newKnown(2)
	for i, f := range []string{"f", "f", "g"} {
		k.jobs = append(k.jobs, &knownJob{handle: "H:lap:" + string(rune('1'+i)), function: f, unique: "u", class: i, holder: -1})
	}
	k.jobs[0].background, k.jobs[2].background = true, true
	k.jobs[2].holder = 1
	k.listed([]string{"H:lap:1\t0\t1\t0\n", "H:lap:2\t0\t0\t0\n", "H:lap:3\t2\t1\t0\n"})
	for list, tt := range map[string][2]string{
		"status":           {"f\t2\t0\t1\n g\t1\t1\t1\n", "f\t1\t0\t1\n g\t1\t1\t1\n"},
		"prioritystatus":   {"f\t1\t1\t0\t1\n g\t0\t0\t0\t1\n", "f\t0\t1\t0\t1\n g\t0\t0\t0\t1\n"},
		"show jobs":        {"H:lap:1\t0\t1\t0\n H:lap:2\t0\t0\t0\n H:lap:3\t2\t1\t0\n", "H:lap:2\t0\t0\t0\n H:lap:3\t2\t0\t1\n"},
		"show unique jobs": {"u\n u\n u\n", "u\n u\n"},
	} {
		if got := strings.Join(k.exorcise(list, strings.Split(tt[0], " ")), " "); got != tt[1] {
			t.Errorf("%s: %q, want %q", list, got, tt[1])
		}
	}
	k.listed([]string{"H:lap:3\t2\t1\t0\n"})
	if !k.jobs[0].gone || !k.jobs[1].gone || k.jobs[2].gone {
		t.Error("who is not listed is not gone")
	}
}

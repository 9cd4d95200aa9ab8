package conversation

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHistoriesAgreeWithThemselves keeps the generators honest: a server agrees with itself on
// every history, whatever the timing.
func TestHistoriesAgreeWithThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, version, err := Beanstalk.Reference()
	if err != nil {
		t.Skip(err)
	}
	start := StartBeanstalkd(program)
	c := &Campaign{Protocol: Beanstalk, Reference: start, Subject: start, Version: version, Dir: t.TempDir()}
	for seed := range uint64(40) {
		report, err := c.Compare(seed, 150)
		if err != nil || report != "" {
			t.Fatal(report, err)
		}
	}
}

// TestADifferenceIsFound plays two servers with different limits.
func TestADifferenceIsFound(t *testing.T) {
	program, version, err := Beanstalk.Reference()
	if err != nil {
		t.Skip(err)
	}
	c := &Campaign{
		Protocol: Beanstalk, Reference: StartBeanstalkd(program), Subject: StartBeanstalkd(program, "-z", "100"),
		Version: version, Dir: t.TempDir(), Whole: true, Patience: 200 * time.Millisecond,
	}
	if report, err := c.Compare(3, 150); err != nil || report == "" {
		t.Errorf("no difference is found: %v", err)
	}
}

func TestHistoriesAreReproducible(t *testing.T) {
	for p, ops := range map[*Protocol]int{Beanstalk: len(beanstalkOps), Gearman: len(gearmanOps)} {
		a := newHistory(p, 7, 2000)
		if !reflect.DeepEqual(a, newHistory(p, 7, 2000)) {
			t.Errorf("%s: one seed makes two histories", p.Name)
		}
		if reflect.DeepEqual(a.Events, newHistory(p, 8, 2000).Events) {
			t.Errorf("%s: two seeds make one history", p.Name)
		}
		seen := map[int]bool{}
		for _, e := range a.Events {
			for _, action := range e.Actions {
				seen[action.Op] = true
			}
		}
		if len(seen) != ops {
			t.Errorf("%s: %d of %d operations in 2000", p.Name, len(seen), ops)
		}
	}
}

func TestShrinkFindsTheSmallest(t *testing.T) {
	h := newHistory(Gearman, 3, 1000)
	has := func(e []event, op int) int {
		return slices.IndexFunc(e, func(e event) bool {
			return slices.ContainsFunc(e.Actions, func(a action) bool { return a.Op == op })
		})
	}
	fails := func(h history) bool {
		i := has(h.Events, 3)
		return i >= 0 && has(h.Events[i:], 5) >= 0
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

func TestDifferencesOfGearmanMessagesAreFound(t *testing.T) {
	mark, noop, created := message{17, markPrefix + "1"}, message{6, ""}, message{8, "H:lap:1"}
	one, two := message{28, "H:lap:1\x00a"}, message{28, "H:lap:1\x00b"}
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
		"one noop too many": {a: []message{mark, noop}, b: []message{mark, noop, noop}},
		"noop too late":     {a: []message{noop, created, mark}, b: []message{created, noop, mark}, ordered: true, final: true},
		"mark in between":   {a: []message{noop, created, mark}, b: []message{noop, mark, created}, ordered: true, final: true},
	} {
		why, final := differ(tt.a, tt.b, tt.ordered, tt.unordered)
		if (why == "") != tt.same || final != tt.final {
			t.Errorf("%s: %q, final %t", name, why, final)
		}
	}
}

func TestDifferencesOfBeanstalkRepliesAreFound(t *testing.T) {
	yaml := func(lines string) string { return "OK 99\r\n---\n" + lines + "\r\n" }
	server := "rusage-utime: 0.1\n"
	for name, tt := range map[string]struct {
		a, b                        string
		unquoted, survey, journaled bool
		same                        bool
	}{
		"equal":               {a: "USING a\r\n", b: "USING a\r\n", same: true},
		"another line":        {a: "USING a\r\n", b: "USING b\r\n"},
		"a second older":      {a: yaml("age: 1\n"), b: yaml("age: 2\n"), same: true},
		"two seconds older":   {a: yaml("age: 1\n"), b: yaml("age: 3\n")},
		"another priority":    {a: yaml("pri: 1\n"), b: yaml("pri: 2\n")},
		"another key":         {a: yaml("age: 1\n"), b: yaml("aged: 1\n")},
		"a line more":         {a: yaml("age: 1\n"), b: yaml("age: 1\npri: 1\n")},
		"another job":         {a: yaml("id: 1\n"), b: yaml("id: 2\n")},
		"another process":     {a: yaml("pid: 1\nid: a\n" + server), b: yaml("pid: 2\nid: b\n" + server), same: true},
		"quotes":              {a: yaml("name: \"a\"\n"), b: yaml("name: a\n")},
		"quotes of 1.13":      {a: yaml("name: a\n"), b: yaml("name: \"a\"\n"), unquoted: true, same: true},
		"stats asked":         {a: yaml("cmd-stats: 1\n" + server), b: yaml("cmd-stats: 2\n" + server), same: true},
		"stats asked survey":  {a: yaml("cmd-stats: 1\n" + server), b: yaml("cmd-stats: 2\n" + server), survey: true},
		"a file":              {a: yaml("file: 0\n"), b: yaml("file: 2\n")},
		"a file of a journal": {a: yaml("file: 0\n"), b: yaml("file: 2\n"), journaled: true, same: true},
	} {
		r := &beanstalkReferee{game: &game{c: &Campaign{Journaled: tt.journaled}}, k: beanstalkState{unquoted: tt.unquoted}}
		if why := r.differ(tt.a, tt.b, tt.survey); (why == "") != tt.same {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestWhatGearmandKeepsIsTakenOut(t *testing.T) {
	k := &gearmanState{conns: make([]gearmanConn, 2), limited: map[string]bool{}}
	for i, f := range []string{"f", "f", "g"} {
		k.jobs = append(k.jobs, &gearmanJob{handle: "H:lap:" + string(rune('1'+i)), function: f, unique: "u", class: i, holder: -1})
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
		t.Error("a job that is not listed is not gone")
	}
}

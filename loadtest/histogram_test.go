package main

import (
	"math"
	"testing"
	"time"
)

func near(a, b float64) bool { return math.Abs(a-b) <= b*0.002 } // three significant figures

func TestPercentiles(t *testing.T) {
	r := new(recorder)
	for us := int64(1); us <= 10000; us++ {
		r.record(us*1000, 1)
	}
	s := summarize(r.h)
	if s.Count != 10000 || !near(s.P50, 5000) || !near(s.P99, 9900) || !near(s.P999, 9990) || !near(s.Max, 10000) {
		t.Errorf("%+v", s)
	}
	if s := summarize(nil); s != (latency{}) {
		t.Errorf("nothing recorded gives %+v", s)
	}
}

func TestOutOfBoundsIsClamped(t *testing.T) {
	r := new(recorder)
	r.record(-5, 1)
	r.record(math.MaxInt64, 2)
	if r.h.TotalCount() != 3 || !near(float64(r.h.Max()), float64(longest)) {
		t.Errorf("count %d, maximum %d", r.h.TotalCount(), r.h.Max())
	}
}

func TestMergeIsExact(t *testing.T) {
	a, b, both := new(recorder), new(recorder), new(recorder)
	for i := range int64(5000) {
		v := 100 + i*i
		both.record(v, 1)
		if i%3 == 0 {
			a.record(v, 1)
		} else {
			b.record(v, 1)
		}
	}
	merged := newHistogram()
	for _, r := range []*recorder{a, b} {
		text, err := encodeHistogram(r.h)
		if err != nil {
			t.Fatal(err)
		}
		if merged, err = mergeHistogram(merged, text); err != nil {
			t.Fatal(err)
		}
	}
	if summarize(merged) != summarize(both.h) {
		t.Errorf("merged %+v, expected %+v", summarize(merged), summarize(both.h))
	}
	if h, err := mergeHistogram(nil, nil); h != nil || err != nil {
		t.Errorf("merging nothing gives %v, %v", h, err)
	}
	if _, err := mergeHistogram(nil, []byte("nonsense")); err == nil {
		t.Error("nonsense passed as a histogram")
	}
}

func TestLaneGathersEqualValues(t *testing.T) {
	l := &lane{commands: new(recorder), deadline: now() + int64(time.Hour), budget: 5}
	for i, v := range []int64{1000, 1000, 1000, 2000, 1000} {
		if !l.more() {
			t.Fatalf("the lane ended after %d of 5 commands", i)
		}
		l.answered(0, v)
	}
	if l.more() {
		t.Error("the lane goes on after its budget")
	}
	l.flush()
	if l.ops.Load() != 5 || l.commands.h.TotalCount() != 5 || !near(float64(l.commands.h.Max()), 2000) || l.commands.h.ValueAtQuantile(80) > 1001 {
		t.Errorf("%d operations, %d latencies, maximum %d", l.ops.Load(), l.commands.h.TotalCount(), l.commands.h.Max())
	}
	if (&lane{deadline: now() - 1}).more() {
		t.Error("a lane goes on after its deadline")
	}
}

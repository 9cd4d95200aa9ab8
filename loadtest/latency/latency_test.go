package latency

import (
	"math"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) <= b*0.002 } // three significant figures

func TestPercentiles(t *testing.T) {
	r := new(Recorder)
	for us := int64(1); us <= 10000; us++ {
		r.Record(us*1000, 1)
	}
	s := Summarize(r.h)
	if s.Count != 10000 || !near(s.P50, 5000) || !near(s.P99, 9900) || !near(s.P999, 9990) || !near(s.Max, 10000) {
		t.Errorf("%+v", s)
	}
	if s := Summarize(nil); s != (Summary{}) {
		t.Errorf("nothing recorded gives %+v", s)
	}
}

func TestOutOfBoundsIsClamped(t *testing.T) {
	r := new(Recorder)
	r.Record(-5, 1)
	r.Record(math.MaxInt64, 2)
	if r.h.TotalCount() != 3 || !near(float64(r.h.Max()), float64(longest)) {
		t.Errorf("count %d, maximum %d", r.h.TotalCount(), r.h.Max())
	}
}

func TestMergeIsExact(t *testing.T) {
	a, b, both := new(Recorder), new(Recorder), new(Recorder)
	for i := range int64(5000) {
		v := 100 + i*i
		both.Record(v, 1)
		if i%3 == 0 {
			a.Record(v, 1)
		} else {
			b.Record(v, 1)
		}
	}
	merged := newHistogram()
	for _, r := range []*Recorder{a, b} {
		text, err := Encode(r.h)
		if err != nil {
			t.Fatal(err)
		}
		if merged, err = Merge(merged, text); err != nil {
			t.Fatal(err)
		}
	}
	if Summarize(merged) != Summarize(both.h) {
		t.Errorf("merged %+v, expected %+v", Summarize(merged), Summarize(both.h))
	}
	if h, err := Merge(nil, nil); h != nil || err != nil {
		t.Errorf("merging nothing gives %v, %v", h, err)
	}
	if _, err := Merge(nil, []byte("nonsense")); err == nil {
		t.Error("nonsense passed as a histogram")
	}
}

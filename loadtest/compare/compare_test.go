package compare

import (
	"slices"
	"testing"

	"polystalk/loadtest/beanstalkd"
	"polystalk/loadtest/measure/measuretest"
	"polystalk/loadtest/workload"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
		ok   bool
	}{
		{nil, 0, false}, {[]float64{3}, 3, true}, {[]float64{9, 1}, 5, true}, {[]float64{9, 1, 2}, 2, true}, {[]float64{4, 1, 3, 2}, 2.5, true},
	} {
		in := slices.Clone(c.in)
		if got, ok := median(in); got != c.want || ok != c.ok || !slices.Equal(in, c.in) {
			t.Errorf("median %v = %v %v, expected %v %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

func TestRatiosPairRunsOfOneRound(t *testing.T) {
	sums := Summarize(measuretest.ThreeRounds(), "ref")
	if len(sums) != 5 || sums[0].Server != "ref" || sums[1].Server != "new" || sums[2].Server != "floor" {
		t.Fatalf("summaries %+v", sums)
	}
	n := sums[1]
	if n.Rounds != 3 || n.Median["cpu"] != 4 || n.Ratio["cpu"] != 0.5 || n.Ratio["ops"] != 2 || n.Ratio["p99"] != 1 {
		t.Errorf("%+v", n)
	}
	if _, ok := n.Median["p50"]; ok {
		t.Error("a figure that is not known has a median")
	}
	if _, ok := sums[3].Ratio["cpu"]; ok {
		t.Error("a load without a baseline has a ratio")
	}
}

func TestLoadsMeetServers(t *testing.T) {
	floor, a, b := Target{Name: "floor", Constant: true}, Target{Name: "a"}, Target{Name: "b"}
	plainLoad, once := workload.Load{Workload: "wakeup"}, workload.Load{Workload: "cycle", Rounds: 1, Skip: []string{"b"}}
	comparison := Comparison{Protocol: beanstalkd.Protocol}
	for _, c := range []struct {
		l     workload.Load
		t     Target
		round int
		want  bool
	}{
		{plainLoad, a, 0, true}, {plainLoad, a, 5, true}, {plainLoad, floor, 0, false},
		{once, a, 0, true}, {once, a, 1, false}, {once, b, 0, false}, {once, floor, 0, true},
	} {
		if comparison.meets(c.l, c.t, c.round) != c.want {
			t.Errorf("%s on %s in round %d: %v", c.l.Workload, c.t.Name, c.round, !c.want)
		}
	}
}

package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
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

// threeRounds: the second round was slow for both, which the ratios must not see.
func threeRounds() []run {
	var runs []run
	for round, slow := range []float64{1, 10, 1} {
		for _, s := range []struct {
			name string
			cpu  float64
		}{{"ref", 8}, {"new", 4}, {"floor", 2}} {
			runs = append(runs, run{Load: "cycle", Server: s.name, Round: round + 1, OpsRate: 1000 / (s.cpu * slow), CPU: s.cpu * slow,
				Latency: latency.Summary{P99: 100}, RSSAfter: 1 << 20})
		}
	}
	runs = append(runs, run{Load: "busy", Server: "new", Round: 1, CPU: 6}, run{Load: "memory", Server: "new", Round: 1, CPU: 1,
		Memory: &memory{Jobs: 100, RSSEmpty: 1000, RSSFull: 21000, RSSDrained: 1000}})
	return runs
}

func TestRatiosPairRunsOfOneRound(t *testing.T) {
	sums := summarizeRuns(threeRounds(), "ref")
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
	floor, a, b := target{Name: "floor", Constant: true}, target{Name: "a"}, target{Name: "b"}
	plainLoad, once := Load{Workload: "wakeup"}, Load{Workload: "cycle", Rounds: 1, Skip: []string{"b"}}
	for _, c := range []struct {
		l     Load
		t     target
		round int
		want  bool
	}{
		{plainLoad, a, 0, true}, {plainLoad, a, 5, true}, {plainLoad, floor, 0, false},
		{once, a, 0, true}, {once, a, 1, false}, {once, b, 0, false}, {once, floor, 0, true},
	} {
		if meets(c.l, c.t, c.round) != c.want {
			t.Errorf("%s on %s in round %d: %v", c.l.Workload, c.t.Name, c.round, !c.want)
		}
	}
}

func TestMemoryFigures(t *testing.T) {
	m := &memory{Jobs: 100, RSSEmpty: 1000, RSSFull: 21000, RSSDrained: 6000}
	if m.bytesPerJob() != 200 || m.kept() != 0.25 {
		t.Errorf("%v bytes, %v kept", m.bytesPerJob(), m.kept())
	}
	var none *memory
	if none.bytesPerJob() != 0 || none.kept() != 0 {
		t.Error("no memory report has figures")
	}
	if (&memory{Jobs: 1, RSSEmpty: 9, RSSFull: 10, RSSDrained: 1}).kept() != 0 {
		t.Error("less than nothing is kept")
	}
}

func TestReportsOfProcessesAddUp(t *testing.T) {
	a, b := new(latency.Recorder), new(latency.Recorder)
	a.Record(1000, 300)
	b.Record(5000, 100)
	encode := func(r *latency.Recorder) []byte {
		text, err := latency.Encode(r.Histogram())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	r := &run{Load: "x"}
	err := r.add([]*report{
		{Ops: 300, Wall: time.Second, LoadCPU: 200 * time.Millisecond, Commands: encode(a), ExcludedCPU: 100 * time.Millisecond},
		{Ops: 100, Wall: 2 * time.Second, LoadCPU: 200 * time.Millisecond, Commands: encode(b)},
	}, proc.CPUTime{Total: 900 * time.Millisecond, User: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops != 400 || r.Seconds != 2 || r.OpsRate != 200 || r.CPU != 2000 || r.Busy != 0.4 || r.LoadCPU != 1000 || r.CPUUser != 0 ||
		r.Latency.Count != 400 || !near(r.Latency.P50, 1) || !near(r.Latency.Max, 5) {
		t.Errorf("%+v", r)
	}
	if err := new(run).add([]*report{{Wall: time.Second}}, proc.CPUTime{}); err == nil {
		t.Error("a run without operations passed")
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= b*0.002 } // three significant figures

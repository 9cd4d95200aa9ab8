package measure

import (
	"math"
	"testing"
	"time"

	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

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
	r := &Run{Load: "x"}
	err := r.add([]*workload.Report{
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
	if err := new(Run).add([]*workload.Report{{Wall: time.Second}}, proc.CPUTime{}); err == nil {
		t.Error("a run without operations passed")
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= b*0.002 } // three significant figures

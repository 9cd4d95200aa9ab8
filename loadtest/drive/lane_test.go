package drive

import (
	"math"
	"testing"
	"time"

	"polystalk/loadtest/latency"
)

func near(a, b float64) bool { return math.Abs(a-b) <= b*0.002 } // three significant figures

func TestLaneGathersEqualValues(t *testing.T) {
	l := &Lane{Commands: new(latency.Recorder), Deadline: Now() + int64(time.Hour), Budget: 5}
	for i, v := range []int64{1000, 1000, 1000, 2000, 1000} {
		if !l.More() {
			t.Fatalf("the lane ended after %d of 5 commands", i)
		}
		l.Answered(0, v)
	}
	if l.More() {
		t.Error("the lane goes on after its budget")
	}
	l.Flush()
	if l.ops.Load() != 5 || l.Commands.Histogram().TotalCount() != 5 || !near(float64(l.Commands.Histogram().Max()), 2000) || l.Commands.Histogram().ValueAtQuantile(80) > 1001 {
		t.Errorf("%d operations, %d latencies, maximum %d", l.ops.Load(), l.Commands.Histogram().TotalCount(), l.Commands.Histogram().Max())
	}
	if (&Lane{Deadline: Now() - 1}).More() {
		t.Error("a lane goes on after its deadline")
	}
}

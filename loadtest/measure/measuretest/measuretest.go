// Package measuretest has runs, for the tests of what is made of them.
package measuretest

import (
	"polystalk/loadtest/latency"
	"polystalk/loadtest/measure"
	"polystalk/loadtest/workload"
)

// ThreeRounds are runs of three servers under one load, and of one under two
// more. The second round was slow for all, which the ratios must not see.
func ThreeRounds() []measure.Run {
	var runs []measure.Run
	for round, slow := range []float64{1, 10, 1} {
		for _, s := range []struct {
			name string
			cpu  float64
		}{{"ref", 8}, {"new", 4}, {"floor", 2}} {
			runs = append(runs, measure.Run{Load: "cycle", Server: s.name, Round: round + 1, OpsRate: 1000 / (s.cpu * slow), CPU: s.cpu * slow,
				Latency: latency.Summary{P99: 100}, RSSAfter: 1 << 20})
		}
	}
	runs = append(runs, measure.Run{Load: "busy", Server: "new", Round: 1, CPU: 6}, measure.Run{Load: "memory", Server: "new", Round: 1, CPU: 1,
		Memory: &workload.Memory{Jobs: 100, RSSEmpty: 1000, RSSFull: 21000, RSSDrained: 1000}})
	return runs
}

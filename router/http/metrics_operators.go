package http

import (
	"polystalk/router/admin"
	"polystalk/shard/stats"
)

// The bounds of a step that are shown: 3.8 µs to 1 s.
const (
	firstStep = 0
	lastStep  = 9
)

// operators emits the tubeFamilies of what operators do.
func (e emitter) operators(op *admin.Operator) {
	steps := op.Steps()
	e.rare("operator_step_seconds", "How long an operator's operation had a shard, each time that it did.", &steps, float64(steps.Sum)/1e9, stats.HistogramSeconds, firstStep, lastStep)
	operations, jobs := op.ActionCounts()
	for _, d := range operations {
		e.counter("operator_operations_total", "What operators did, by what came of it: done, or the problem.", float64(d.Count), label{"action", "result"}, d.Action, d.Result)
	}
	for _, d := range jobs {
		e.counter("operator_jobs_total", "Jobs that operators changed, and those that their operations left as they were.", float64(d.Count), label{"action", "result"}, d.Action, d.Result)
	}
}

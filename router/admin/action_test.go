package admin

import (
	"testing"

	"polystalk/shard/core"
)

// TestForeseenOfAMovingJob: it is nobody's to change, however much force is used, as the core
// has it: a dry run says so.
func TestForeseenOfAMovingJob(t *testing.T) {
	row := core.JobRow{JobStats: core.JobStats{State: core.Reserved}, Moving: true}
	for v := range verbActions {
		for _, force := range []bool{false, true} {
			a := Verb{core.Action{Verb: v, Force: force, Changes: core.ChangePri}}
			if why := a.Foresee(&row); why != core.StatusMoving {
				t.Errorf("%s, forced %v: status %d", a.Name(), force, why)
			}
		}
	}
}

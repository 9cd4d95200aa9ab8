package admin

import (
	"testing"

	"polystalk/shard/core"
)

// TestForeseenOfAMovingJob: like the core, a dry run reports that no verb changes a job that is
// being moved, with or without force.
func TestForeseenOfAMovingJob(t *testing.T) {
	row := core.JobRow{JobStats: core.JobStats{State: core.Reserved}, Moving: true}
	for _, v := range []core.Verb{core.VerbDelete, core.VerbKick, core.VerbBury, core.VerbRelease, core.VerbSet} {
		for _, force := range []bool{false, true} {
			a := Verb{core.Action{Verb: v, Force: force, Changes: core.ChangePri}}
			if why := a.Foresee(&row); why != core.StatusMoving {
				t.Errorf("%s, forced %v: status %d", a.Name(), force, why)
			}
		}
	}
}

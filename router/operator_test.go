package router_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// TestNothingIsOperatedBeforeTheStart: operations are refused before the start, and after a
// shutdown has begun.
func TestNothingIsOperatedBeforeTheStart(t *testing.T) {
	s, err := router.New(router.Config{Loops: 1, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	op := s.Operator()
	refused := func(kind *wire.Kind) {
		t.Helper()
		_, err := op.Put(t.Context(), admin.NewJob{Tube: "a"})
		if p, ok := err.(*wire.Problem); !ok || p.Status != kind.Status || p.Type != kind.Problem("").Type {
			t.Errorf("%v, want %s", err, kind.Slug)
		}
	}
	refused(wire.Starting)
	if err := applied(s, router.Settings{}); err == nil {
		t.Error("settings are changed before the start")
	}
	if op.Alive().Status != "ok" || op.Readiness().Status != "fail" {
		t.Errorf("%+v %+v", op.Alive(), op.Readiness())
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if op.Readiness().Status != "ok" {
		t.Errorf("%+v", op.Readiness())
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	refused(wire.Stopping)
}

// TestActionsAreCounted: an operation counts once, by its result, and its jobs are counted, too.
// Reads are not counted.
func TestActionsAreCounted(t *testing.T) {
	op, ctx := serve(t, router.Config{Loops: 1, Shards: 4, MaxJobSize: 10}).Operator(), context.Background()
	before := op.Steps()
	var ids []core.JobID
	for range 3 {
		id, err := op.Put(ctx, admin.NewJob{Tube: "mail", TTR: 9, Body: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	op.Put(ctx, admin.NewJob{Tube: "mail", Body: make([]byte, 11)})
	op.Act(ctx, ids[0], core.VerbDelete, false)
	op.Act(ctx, ids[0], core.VerbDelete, false)
	op.Act(ctx, ids[1], core.VerbKick, false)
	op.Act(ctx, ids[1], core.VerbRelease, false)
	op.Act(ctx, ids[1], core.VerbBury, false)
	op.Kick(ctx, "mail", 10)
	op.Kick(ctx, "none", 10)
	op.Pause(ctx, "mail", 1)
	op.Edit(ctx, ids[1], &admin.Edit{Action: core.Action{Verb: core.VerbSet, Changes: core.ChangePri, Pri: 7}})
	kick := admin.Bulk{Jobs: admin.JobQuery{Tube: "mail"}, Action: admin.Verb{Action: core.Action{Verb: core.VerbKick}}, AtMost: math.MaxUint64}
	if err := op.RunBulk(ctx, &kick, new(admin.Progress)); err != nil {
		t.Fatal(err)
	}
	kick.DryRun = true
	op.RunBulk(ctx, &kick, new(admin.Progress))
	op.KillConnection(ctx, 99)
	op.SetDraining(true)
	op.SetDraining(false)
	if _, _, err := op.Job(ctx, ids[1], 0); err != nil {
		t.Fatal(err)
	}
	operations, jobs := op.ActionCounts()
	check := func(what string, got admin.ActionCount, want map[string]uint64) {
		t.Helper()
		for of, n := range got {
			key := of[0] + " " + of[1]
			if n != want[key] {
				t.Errorf("%s: %s is %d, want %d", what, key, n, want[key])
			}
			delete(want, key)
		}
		for key := range want {
			t.Errorf("%s: %s is not there", what, key)
		}
	}
	check("operations", operations, map[string]uint64{
		"put done": 3, "put too-large": 1, "delete done": 1, "delete not-found": 1, "kick job-moved": 1, "release job-moved": 1,
		"bury done": 1, "kick done": 2, "kick not-found": 1, "pause done": 1, "set done": 1, "release done": 0,
		"kill done": 0, "kill not-found": 1, "drain done": 1, "undrain done": 1,
	})
	check("jobs", jobs, map[string]uint64{
		"put done": 3, "delete done": 1, "bury done": 1, "kick done": 1, "kick skipped": 2, "set done": 1,
		"put skipped": 0, "delete skipped": 0, "bury skipped": 0, "release done": 0, "release skipped": 0, "set skipped": 0,
	})
	var steps uint64
	for _, n := range op.Steps().N {
		steps += n
	}
	for _, n := range before.N {
		steps -= n
	}
	if steps < 15 || op.Steps().Sum == 0 {
		t.Errorf("%d steps were counted in %s", steps, fmt.Sprint(op.Steps()))
	}
}

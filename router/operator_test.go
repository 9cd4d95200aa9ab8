package router_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/shard/wal"
)

// TestChangesAreDurableWithEachPolicy: also where the waiting caller makes the commit.
func TestChangesAreDurableWithEachPolicy(t *testing.T) {
	for _, sync := range []wal.SyncPolicy{wal.SyncAlways, wal.SyncEvery, wal.SyncNever} {
		s := serve(t, router.Config{Loops: 1, Shards: 2, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: sync, Every: 50 * time.Millisecond}})
		start := time.Now()
		const jobs = 50
		for i := range jobs {
			if _, err := s.Operator().Put(t.Context(), admin.NewJob{Tube: fmt.Sprintf("t%d", i%5), TTR: 60, Body: []byte("x")}); err != nil {
				t.Fatalf("policy %d: %v", sync, err)
			}
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("policy %d: %d jobs took %v", sync, jobs, took)
		}
		j, err := s.Operator().Journal()
		if err != nil || j.Records < jobs || j.PendingBytes != 0 {
			t.Errorf("policy %d: after the answers %+v, %v", sync, j, err)
		}
	}
}

// TestNothingIsOperatedBeforeTheStart: nor after the end has begun.
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

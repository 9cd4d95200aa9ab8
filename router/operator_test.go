package router_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// operated is a server that serves, until the end of the test.
func operated(t *testing.T, cfg router.Config) *router.Server {
	t.Helper()
	s, err := router.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return s
}

// TestServerIsNotAliveWhenAShardIsStuck: and is again when it is free.
func TestServerIsNotAliveWhenAShardIsStuck(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := operated(t, router.Config{Loops: 2, Shards: 4})
	op := s.Operator()
	if h := op.Alive(); h.Status != "ok" || len(h.Checks) != 2 {
		t.Fatalf("%+v", h)
	}
	b := shard.Batch{Home: nobodyHome{}}
	sh := s.Host().Map.Shard(2)
	for s.Host().Clock.Stamp(&b); !sh.Own(&b); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(600 * time.Millisecond) // the answer before holds for half a second
	h := op.Alive()
	if h.Status != "fail" || h.Checks[0].Status != "ok" || h.Checks[1].Status != "fail" || !strings.Contains(h.Checks[1].Detail, "shard") {
		t.Errorf("%+v", h)
	}
	sh.Release(&b)
	for range 100 {
		if h = op.Alive(); h.Status == "ok" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if h.Status != "ok" {
		t.Errorf("once the shard is free: %+v", h)
	}
}

// TestServerIsNotAliveWhenALoopIsStuck: as in a turn that does not end.
func TestServerIsNotAliveWhenALoopIsStuck(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := operated(t, router.Config{Loops: 2, Shards: 4})
	l := s.Host().Loops()[1]
	l.Enter()
	h := s.Operator().Alive()
	l.Exit()
	if h.Status != "fail" || h.Checks[0].Status != "fail" || !strings.Contains(h.Checks[0].Detail, "event loops [1]") {
		t.Errorf("%+v", h)
	}
}

// TestChangesAreDurableWithEachPolicy: also where the waiting caller makes the commit.
func TestChangesAreDurableWithEachPolicy(t *testing.T) {
	for _, sync := range []wal.SyncPolicy{wal.SyncAlways, wal.SyncEvery, wal.SyncNever} {
		s := operated(t, router.Config{Loops: 1, Shards: 2, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: sync, Every: 50 * time.Millisecond}})
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

// TestServerHasTheClockThatItIsGiven: two on one machine may have different times.
func TestServerHasTheClockThatItIsGiven(t *testing.T) {
	var now atomic.Int64
	began := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	now.Store(began.UnixNano())
	op := operated(t, router.Config{Loops: 1, Shards: 1, Clock: ops.GivenClock(func() core.Time { return core.Time(now.Load()) })}).Operator()
	id, err := op.Put(t.Context(), admin.NewJob{Tube: "a", TTR: 60})
	if err != nil {
		t.Fatal(err)
	}
	now.Add(int64(time.Hour))
	row, _, err := op.Job(t.Context(), id, 0)
	if err != nil || row.Age != core.Time(time.Hour) {
		t.Errorf("%+v, %v: want an age of an hour", row, err)
	}
}

// nobodyHome is a Home without messages.
type nobodyHome struct{}

// Post implements core.Home.
func (nobodyHome) Post(*core.Message) {}

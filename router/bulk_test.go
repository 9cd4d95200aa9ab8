package router_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// TestFlushEndsBeforeTheServer: a shutdown waits for a flush that has begun, so no flushed job
// returns after the next start.
func TestFlushEndsBeforeTheServer(t *testing.T) {
	cfg := router.Config{Loops: 1, Shards: 2, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20}}
	s := serve(t, cfg)
	c := s.worker("a")
	c.fill(20_000)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Operator().Flush(t.Context(), &admin.Flush{Tube: "a"})
		ended <- err
	}()
	for s.Operator().Life().Phase() != admin.Stopping {
		if tube, err := s.Operator().Tube(t.Context(), "a"); err == nil && tube.Ready == 0 {
			s.Operator().Life().Stop()
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the flush: %v", err)
	}
	s.end()
	s = serve(t, cfg)
	c = s.worker("a")
	if id, ok := c.reserve(); ok {
		t.Errorf("job %s has returned", id)
	}
}

// TestFlushIsDurable: with each sync policy, flushed jobs do not return. A worker's reserved job
// does, and so do later jobs.
func TestFlushIsDurable(t *testing.T) {
	for _, sync := range []wal.SyncPolicy{wal.SyncAlways, wal.SyncEvery, wal.SyncNever} {
		cfg := router.Config{Loops: 2, Shards: 2, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: sync, Every: 50 * time.Millisecond}}
		s := serve(t, cfg)
		c := s.worker("a")
		const jobs = 5000
		c.fill(jobs)
		held, _ := c.reserve()
		start := time.Now()
		n, err := s.Operator().Flush(t.Context(), &admin.Flush{Tube: "a"})
		if took := time.Since(start); err != nil || n.Ready != jobs-1 || n.All() != jobs-1 || took > time.Minute {
			t.Fatalf("policy %d: flushed %+v within %v, %v", sync, n, took, err)
		}
		if got := c.ask("put 0 0 600 5\r\nlater"); got != fmt.Sprintf("INSERTED %d", jobs+1) {
			t.Fatal(got)
		}
		s.end()
		s = serve(t, cfg)
		c = s.worker("a")
		got := make(map[string]bool)
		for id, ok := c.reserve(); ok; id, ok = c.reserve() {
			got[id] = true
		}
		if len(got) != 2 || !got[held] || !got[strconv.Itoa(jobs+1)] {
			t.Errorf("policy %d: after a restart there are %v", sync, got)
		}
	}
}

// TestFlushGoesOnWithoutItsCaller: if the caller leaves, it is told that the flush may not be
// durable. The flush continues, and becomes durable later.
func TestFlushGoesOnWithoutItsCaller(t *testing.T) {
	dir := t.TempDir()
	disk := newStallingDisk(dir)
	cfg := router.Config{Loops: 1, Shards: 1, Journal: &router.Journal{Dir: dir, Disk: disk, SegmentSize: 10 << 20}}
	s := serve(t, cfg)
	c := s.worker("a")
	const jobs = 50_000 // are collected in about fifty parts, a quarter of a millisecond apart
	c.fill(jobs)
	disk.stall(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // the caller leaves when no client sees the jobs
		for {
			if v, err := s.Operator().Tube(ctx, "a"); err != nil || v.Ready == 0 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	n, err := s.Operator().Flush(ctx, &admin.Flush{Tube: "a"})
	disk.stall(false)
	if p, ok := errors.AsType[*wire.Problem](err); !ok || p.Status != wire.Uncertain.Status || n.All() != jobs {
		t.Fatalf("flushed %+v, %v", n, err)
	}
	if id, ok := c.reserve(); ok {
		t.Errorf("job %s is still there", id)
	}
	// A later command gets its reply after the flush.
	if got := c.ask("put 0 0 600 1\r\nx"); got != fmt.Sprintf("INSERTED %d", jobs+1) {
		t.Fatal(got)
	}
	if n, err := s.Operator().Flush(t.Context(), &admin.Flush{Tube: "a"}); err != nil || n.All() != 1 {
		t.Fatalf("flushed %+v, %v", n, err)
	}
	s.end()
	s = serve(t, cfg)
	if id, ok := s.worker("a").reserve(); ok {
		t.Errorf("job %s exists after a restart", id)
	}
}

// wantProblem fails the test unless err is a problem of a kind.
func wantProblem(t *testing.T, err error, kind *wire.Kind) {
	t.Helper()
	if p, ok := errors.AsType[*wire.Problem](err); !ok || p.Type != kind.Problem("").Type {
		t.Errorf("%v, want %s", err, kind.Slug)
	}
}

// TestMoveOnADiskThatStalls: the caller is told that the result of the move is unknown. Meanwhile no
// client can get or change the job. When the disk continues, the job is moved without a caller.
func TestMoveOnADiskThatStalls(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, bulk := range []bool{false, true} {
		dir := t.TempDir()
		disk := newStallingDisk(dir)
		s := serve(t, router.Config{Loops: 1, Shards: 4, Journal: &router.Journal{Dir: dir, SegmentSize: 1 << 20, Disk: disk}})
		o := s.Operator()
		id, err := o.Put(t.Context(), admin.NewJob{Tube: "from", Delay: 1000, TTR: 60, Body: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		disk.stall(true)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // the caller leaves when the move waits for the disk
			for {
				if row, _, err := o.Job(ctx, id, 0); err != nil || row.Moving {
					cancel()
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		start := time.Now()
		if bulk {
			var p admin.Progress
			b := &admin.Bulk{Jobs: admin.JobQuery{Tube: "from"}, Action: admin.Transfer{To: "to"}, AtMost: 1}
			wantProblem(t, o.RunBulk(ctx, b, &p), wire.Cancelled)
			if v := p.Tally(); v.Unconfirmed != 1 || v.Done != 0 {
				t.Errorf("%+v", v)
			}
		} else {
			_, err := o.TransferJob(ctx, id, admin.Transfer{To: "to"})
			wantProblem(t, err, wire.Uncertain)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("to give up took %v", took)
		}
		row, _, err := o.Job(t.Context(), id, 0)
		if err != nil || !row.Moving || row.State != core.Reserved {
			t.Errorf("%+v, %v", row, err)
		}
		_, err = o.TransferJob(t.Context(), id, admin.Transfer{To: "elsewhere"})
		wantProblem(t, err, wire.JobMoved)
		wantProblem(t, o.Act(t.Context(), id, core.VerbDelete, true), wire.JobMoved)
		disk.stall(false)
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if _, _, err := o.Job(t.Context(), id, 0); err != nil {
				wantProblem(t, err, wire.NotFound)
				break
			}
			if time.Now().After(end) {
				t.Fatal("the job stays taken")
			}
		}
		if to, err := o.Tube(t.Context(), "to"); err != nil || to.Delayed != 1 {
			t.Errorf("%+v, %v", to, err)
		}
	}
}

// TestTransferOfLargeBodies: each is transferred alone, within the free space.
func TestTransferOfLargeBodies(t *testing.T) {
	s := serve(t, router.Config{Loops: 1, Shards: 4, MaxJobSize: 1 << 20, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20}})
	o := s.Operator()
	bodies := make(map[string]bool)
	for n := range 20 {
		body := strings.Repeat(fmt.Sprint(n%10), []int{10, 60_000, 100_000, 900_000}[n%4]+n)
		bodies[body] = true
		if _, err := o.Put(t.Context(), admin.NewJob{Tube: "from", TTR: 60, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []admin.Transfer{{To: "to"}, {To: "to", Copy: true}} {
		var p admin.Progress
		tube := map[bool]string{false: "from", true: "to"}[a.Copy]
		if err := o.RunBulk(t.Context(), &admin.Bulk{Jobs: admin.JobQuery{Tube: tube}, Action: a, AtMost: 100}, &p); err != nil || p.Tally().Done != 20 {
			t.Fatalf("%+v, %v", p.Tally(), err)
		}
	}
	list, err := o.Jobs(t.Context(), &admin.JobQuery{Tube: "to", Limit: 100, Body: admin.ShownMost}, nil)
	if err != nil || len(list.Rows) != 40 {
		t.Fatalf("%d jobs, %v", len(list.Rows), err)
	}
	for _, row := range list.Rows {
		whole, _, err := o.Job(t.Context(), row.ID, 1<<30)
		if err != nil || !bodies[string(whole.Body)] {
			t.Errorf("job %d has another body, %v", row.ID, err)
		}
	}
}

// TestMoveEndsBeforeTheServer: after a move that a shutdown interrupts, each job is in exactly one
// tube after the next start.
func TestMoveEndsBeforeTheServer(t *testing.T) {
	cfg := router.Config{Loops: 1, Shards: 4, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20}}
	s := serve(t, cfg)
	const jobs = 20_000
	s.worker("from").fill(jobs)
	var p admin.Progress
	ended := make(chan error, 1)
	go func() {
		b := &admin.Bulk{Jobs: admin.JobQuery{Tube: "from"}, Action: admin.Transfer{To: "to"}, AtMost: math.MaxUint64}
		ended <- s.Operator().RunBulk(t.Context(), b, &p)
	}()
	for p.Tally().Done == 0 {
		time.Sleep(time.Millisecond)
	}
	s.Operator().Life().Stop()
	<-ended // with a problem, unless it was complete
	s.end()
	s = serve(t, cfg)
	n, err := s.Operator().Sample(t.Context(), admin.SampleFor)
	if err != nil || n.Jobs.Ready != jobs || n.Jobs.Reserved != 0 {
		t.Fatalf("%+v, %v", n, err)
	}
	if to, err := s.Operator().Tube(t.Context(), "to"); err != nil || to.Ready != p.Tally().Done {
		t.Errorf("%d are in the other tube, want %d; %v", to.Ready, p.Tally().Done, err)
	}
}

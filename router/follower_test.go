package router_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/shard/commit"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// records reads all records of a closed journal, and returns their number.
func records(t *testing.T, dir string, apply func(*record.Record) error) (n int) {
	t.Helper()
	j := commit.New(commit.Options{Options: wal.Options{Disk: wal.Dir(dir), Manual: true}, Shards: 1})
	_, err := j.Recover(wal.Replayer{
		Workers: 1, Worker: func(uint16) int { return 0 },
		Apply: func(_ int, rec *record.Record) error { n++; return apply(rec) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// journaled returns a server with a journal in dir, which is not started.
func journaled(t *testing.T, dir string) *router.Server {
	t.Helper()
	s, err := router.New(router.Config{Loops: 1, Shards: 2, Journal: &router.Journal{Dir: dir, SegmentSize: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shutDown ends a server in any stage.
func shutDown(t *testing.T, s *router.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// TestFollowerLeads: a server that has followed another one serves the other's jobs once it leads,
// and no client before.
func TestFollowerLeads(t *testing.T) {
	const jobs = 40
	first := t.TempDir()
	s := journaled(t, first)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for n := range jobs {
		if _, err := s.Operator().Put(t.Context(), admin.NewJob{Tube: fmt.Sprint("tube", n%5), TTR: 60, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	shutDown(t, s)

	own := t.TempDir()
	s = journaled(t, own)
	f, err := s.Follow()
	if err != nil {
		t.Fatal(err)
	}
	life := s.Operator().Life()
	if life.Phase() != admin.Following || s.Operator().Readiness().Status != "fail" {
		t.Errorf("phase %v, readiness %+v", life.Phase(), s.Operator().Readiness())
	}
	if _, err := s.Operator().Put(t.Context(), admin.NewJob{Tube: "a", TTR: 60}); err == nil {
		t.Error("it takes a job while it follows")
	}
	if err := applied(s, router.Settings{MaxJobSize: 3, Gearman: router.GearmanConfig{Retries: 7}}); err != nil {
		t.Errorf("who follows takes no settings: %v", err)
	}
	if n := records(t, first, f.Apply); n < jobs {
		t.Fatalf("%d records of %d jobs", n, jobs)
	}
	f.Settle()
	if err := f.Lead(nil); err != nil {
		t.Fatal(err)
	}
	if life.Phase() != admin.Serving {
		t.Errorf("phase %v", life.Phase())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c := (&liveServer{t: t}).dial(l.Addr())
	c.say("delete 7\r\nput 0 0 9 4\r\nlong\r\nput 0 0 9 1\r\ny\r\n")
	c.hears(fmt.Sprintf("DELETED\r\nJOB_TOO_BIG\r\nINSERTED %d\r\n", jobs+1))
	shutDown(t, s)
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestFollowerEnds: a server that never leads leaves a readable journal, and a server that cannot
// read its journal can be shut down.
func TestFollowerEnds(t *testing.T) {
	dir := t.TempDir()
	s := journaled(t, dir)
	if _, err := s.Follow(); err != nil {
		t.Fatal(err)
	}
	shutDown(t, s)
	records(t, dir, func(*record.Record) error { return nil })

	s = journaled(t, dir+"/nowhere")
	_, err := s.Follow()
	if _, ok := errors.AsType[*router.JournalError](err); !ok {
		t.Errorf("%v", err)
	}
	shutDown(t, s)
}

// TestRepliesWaitForTheLeaseFence: once another server may lead, no reply is sent before a commit
// that only a leader can reach, not even the reply to a read.
func TestRepliesWaitForTheLeaseFence(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1})
	store := &heldStorage{}
	h := f.d.Server.Host()
	h.Journal = store
	var least uint64
	h.LeaseFence = func() uint64 { return least }
	c := f.open()
	c.says("peek 1\n", "NOT_FOUND\n")
	least = 3
	c.send("peek 1\r\n")
	c.send("peek 2\r\n")
	f.rest()
	c.wants("")
	store.acked = 2
	h.Wake()
	f.rest()
	c.wants("")
	store.acked = 3
	h.Wake()
	f.rest()
	c.wants("NOT_FOUND\nNOT_FOUND\n")
	least = 0
	c.says("peek 1\n", "NOT_FOUND\n")
}

// A heldStorage acknowledges the commits that the test sets.
type heldStorage struct {
	commit.Storage
	acked uint64
}

func (s *heldStorage) Acked() uint64             { return s.acked }
func (s *heldStorage) Pressure() commit.Pressure { return commit.Open }
func (s *heldStorage) Here() bool                { return false }
func (s *heldStorage) CommitHere()               {}

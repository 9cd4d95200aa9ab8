package wal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A customer puts and deletes jobs of its own and knows which are there.
type customer struct {
	s    *server
	desk int
	rng  *rand.Rand
	have map[core.JobID]string // acknowledged
	open map[core.JobID]string // put or deleted, and not acknowledged
	gone []core.JobID          // deleted, acknowledged
}

func (c *customer) run(n int) {
	for range n {
		if !c.s.admitted() {
			return
		}
		if len(c.have) > 20 {
			for id, body := range c.have {
				delete(c.have, id)
				c.open[id] = body
				r := c.s.do(c.desk, &core.Op{Kind: core.OpDelete, ID: id})
				if r.Status != core.StatusOK || !c.s.await(r.Commit) {
					return
				}
				delete(c.open, id)
				c.gone = append(c.gone, id)
				break
			}
			continue
		}
		id := c.s.newID()
		body := strings.Repeat(fmt.Sprintf("job %d ", id), c.rng.IntN(400))
		op := &core.Op{Kind: core.OpPut, ID: id, TTR: 100, Body: []byte(body)}
		if c.rng.IntN(30) == 0 {
			body = strings.Repeat("large", 20000)
			op.Body, op.Large = nil, core.Large{[]byte(body[:65536]), []byte(body[65536:])}
		}
		c.open[id] = body
		r := c.s.do(c.desk, op)
		if !c.s.await(r.Commit) {
			return
		}
		delete(c.open, id)
		c.have[id] = body
	}
}

// customers run at the same time until all have done n things, or it is over.
func (s *server) customers(seed uint64, k, n int) []*customer {
	var list []*customer
	var wg sync.WaitGroup
	for i := range k {
		c := &customer{s, i, rand.New(rand.NewPCG(seed, uint64(i))), map[core.JobID]string{}, map[core.JobID]string{}, nil}
		list = append(list, c)
		wg.Go(func() { c.run(n) })
	}
	wg.Wait()
	return list
}

// holds checks what is there against what the customers know.
func holds(got map[core.JobID]string, list []*customer) error {
	maybe := 0
	for _, c := range list {
		for id, body := range c.have {
			if b, ok := got[id]; !ok || b != body {
				return fmt.Errorf("job %d of %d bytes is lost or altered: %v", id, len(body), ok)
			}
		}
		for _, id := range c.gone {
			if _, ok := got[id]; ok {
				return fmt.Errorf("job %d is back", id)
			}
		}
		for id, body := range c.open {
			if b, ok := got[id]; ok && b != body {
				return fmt.Errorf("job %d is altered", id)
			}
			maybe++
		}
	}
	known := 0
	for _, c := range list {
		known += len(c.have)
	}
	if len(got) < known || len(got) > known+maybe {
		return fmt.Errorf("%d jobs, want %d to %d", len(got), known, known+maybe)
	}
	return nil
}

func TestConcurrent(t *testing.T) {
	for policy := range SyncPolicy(3) {
		s := &server{disk: Dir(t.TempDir()), policy: policy, size: SegmentMin}
		must(t, s.open(3))
		list := s.customers(1, 12, 150)
		must(t, s.j.Close())
		if s.j.Stats().Migrated == 0 {
			t.Errorf("policy %d: nothing was ever compacted: %+v", policy, s.j.Stats())
		}
		s.closeCores()
		must(t, s.open(2))
		if err := holds(s.bodies(), list); err != nil || len(s.fails) > 0 {
			t.Errorf("policy %d: %v, %v", policy, err, s.fails)
		}
		must(t, s.j.Close())
		s.closeCores()
	}
}

// TestPowerCut stops the machine while customers run.
func TestPowerCut(t *testing.T) {
	seeds(t, 10, func(seed uint64) error {
		d := fakedisk.New(seed)
		s := &server{disk: d, policy: SyncAlways, size: SegmentMin}
		rng := rand.New(rand.NewPCG(seed, 5))
		d.CrashAt = 20 + rng.IntN(600)
		var list []*customer
		if err := s.open(2); err == nil {
			list = s.customers(seed, 8, 400)
			s.j.Close()
		}
		if !d.Dead {
			return fmt.Errorf("only %d operations", d.Ops)
		}
		s.closeCores()
		d.Cut()
		d.CrashAt = 0
		if err := s.open(3); err != nil {
			return err
		}
		err := holds(s.bodies(), list)
		s.j.Close()
		s.closeCores()
		return err
	})
}

// TestError: an error of a write or a sync ends the journal. It is told once,
// nothing is written, synced or acknowledged after it.
func TestError(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, what := range []string{"write", "sync", "syncdir", "rename", "read"} {
		for policy := range SyncPolicy(2) {
			for _, at := range []int{1, 2, 5, 20, 60} {
				d := fakedisk.New(7)
				s := &server{disk: d, policy: policy, size: SegmentMin}
				must(t, s.open(2))
				var mu sync.Mutex
				n, after := 0, 0
				d.Before = func(op, name string) error {
					s.mu.Lock()
					failed := len(s.fails) > 0
					s.mu.Unlock()
					mu.Lock()
					defer mu.Unlock()
					if failed && (op == "write" || op == "sync") {
						after++
					}
					if op == what {
						if n++; n == at {
							return syscall.EIO
						}
					}
					return nil
				}
				list := s.customers(1, 4, 700)
				s.mu.Lock()
				fails, atFail := len(s.fails), s.atFail
				s.mu.Unlock()
				if fails != 1 || !errors.Is(s.fails[0], syscall.EIO) {
					mu.Lock()
					if n >= at {
						t.Errorf("%s %d, policy %d: failed %d times, %v", what, at, policy, fails, s.fails)
					}
					mu.Unlock()
					// It may come only now.
					if err := s.j.Close(); !errors.Is(err, syscall.EIO) {
						must(t, err)
					}
					continue
				}
				if err := s.j.Close(); !errors.Is(err, syscall.EIO) {
					t.Errorf("%s %d, policy %d: Close says %v", what, at, policy, err)
				}
				if s.j.Acked() != atFail {
					t.Errorf("%s %d, policy %d: acknowledged up to %d after an error at %d", what, at, policy, s.j.Acked(), atFail)
				}
				// What the others had under way: a commit, a segment being prepared.
				if after > 10 {
					t.Errorf("%s %d, policy %d: %d writes and syncs after the error", what, at, policy, after)
				}
				s.closeCores()
				d.Before = nil
				if policy == SyncAlways {
					d.Cut()
				}
				must(t, s.open(1))
				if err := holds(s.bodies(), list); err != nil {
					t.Errorf("%s %d, policy %d: %v", what, at, policy, err)
				}
				must(t, s.j.Close())
				s.closeCores()
			}
		}
	}
}

// TestStalled: while the disk does not answer, what waits in memory is bounded,
// and nothing is lost when it does.
func TestStalled(t *testing.T) {
	d := fakedisk.New(3)
	s := &server{disk: d, policy: SyncAlways, size: SegmentMin}
	must(t, s.open(2))
	stall := make(chan struct{})
	var mu sync.Mutex
	stalled := true
	d.Before = func(op, name string) error {
		mu.Lock()
		wait := stalled && op == "sync"
		mu.Unlock()
		if wait {
			<-stall
		}
		return nil
	}
	acked := s.j.Acked()
	puts, last := 0, uint64(0)
	for s.j.Pressure() == commit.Open {
		if puts++; puts > 10*SegmentMin/1000 {
			t.Fatal("puts are taken for ever")
		}
		r := s.do(puts, &core.Op{Kind: core.OpPut, ID: s.newID(), TTR: 1, Body: make([]byte, 1000)})
		last = max(last, r.Commit)
	}
	if p := s.j.Pressure(); p != commit.Wait || s.j.Pending() > SegmentMin/2 {
		t.Errorf("pressure %d, %d bytes wait", p, s.j.Pending())
	}
	if tight(s.j) {
		t.Error("records are left out while the disk is only behind")
	}
	if now := s.j.Acked(); now > acked+1 {
		t.Errorf("acknowledged up to %d with a disk that stands still at %d", now, acked)
	}
	mu.Lock()
	stalled = false
	mu.Unlock()
	close(stall)
	if !s.await(last) || !s.admitted() {
		t.Errorf("it does not go on: %v", s.fails)
	}
	must(t, s.j.Close())
	s.closeCores()
	d.Cut()
	must(t, s.open(1))
	if n := len(s.bodies()); n != puts {
		t.Errorf("%d jobs, want %d", n, puts)
	}
	must(t, s.j.Close())
	s.closeCores()
}

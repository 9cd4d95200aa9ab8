package wal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A server is a journal with its goroutines and cores under locks, for clients
// that run at the same time.
type server struct {
	j      *commit.Journal
	disk   Disk
	policy SyncPolicy
	size   int64
	busy   *busy // the consensus of one server of several; nil: it is alone
	desks  []*desk
	lastID uint64
	idMu   sync.Mutex

	mu      sync.Mutex // for what Notify and Fail tell
	changed *sync.Cond
	fails   []error
	atFail  uint64 // Acked when it failed
}

// A desk is a shard.
type desk struct {
	mu     sync.Mutex
	core   *core.Core
	log    *commit.Log
	client core.ClientID
	tube   core.TubeID
}

func (s *server) open(shards int) error {
	s.changed = sync.NewCond(&s.mu)
	s.desks, s.fails = nil, nil
	o := commit.Options{
		Options: Options{
			Disk: s.disk, SegmentSize: s.size, Sync: s.policy, Every: time.Millisecond, Now: time.Now,
			Copy: func(slot uint16, ids []uint64, after uint64) {
				s.at(int(slot), func(d *desk) {
					for _, id := range ids {
						d.core.CopyJob(core.JobID(id), after)
					}
				})
			},
			CopyOther: func(r *record.Record) {
				s.at(int(r.Slot), func(d *desk) { d.core.CopyOther(r) })
			},
		},
		Shards: shards,
		Notify: func() {
			s.mu.Lock()
			s.changed.Broadcast()
			s.mu.Unlock()
		},
		Fail: func(err *commit.Failure) {
			s.mu.Lock()
			s.fails = append(s.fails, err)
			s.atFail = s.j.Acked()
			s.changed.Broadcast()
			s.mu.Unlock()
		},
	}
	if s.busy != nil {
		o.Proposer, o.Node = s.busy, 1
	}
	s.j = commit.New(o)
	cores, replays, _, err := recovered(s.j, shards)
	for i, c := range cores {
		s.desks = append(s.desks, &desk{core: c, log: s.j.Log(i)})
	}
	if err != nil {
		return err
	}
	for _, r := range replays {
		r.Done(core.Time(time.Now().UnixNano()))
	}
	if s.busy != nil {
		err = s.busy.start(s.j)
	} else {
		err = s.j.Start()
	}
	if err != nil {
		return err
	}
	s.lastID = s.j.HighID()
	for i := range s.desks {
		s.at(i, func(d *desk) {
			var r core.Reply
			d.core.Apply(1, &core.Op{Kind: core.OpJoin, Waiter: new(core.Waiter), Name: s.tubeOf(i)}, &r)
			d.client, d.tube = r.Client, r.Tube
		})
	}
	return nil
}

// tubeOf is a tube that desk i serves.
func (s *server) tubeOf(i int) []byte {
	for n := 0; ; n++ {
		name := fmt.Appendf(nil, "tube %d", n)
		if int(core.SlotOf(name))%len(s.desks) == i {
			return name
		}
	}
}

func (s *server) at(i int, f func(d *desk)) {
	d := s.desks[i%len(s.desks)]
	d.mu.Lock()
	d.log.Begin()
	f(d)
	wake := d.log.End()
	d.mu.Unlock()
	if wake {
		d.log.Request()
	}
}

func (s *server) newID() core.JobID {
	s.idMu.Lock()
	defer s.idMu.Unlock()
	s.lastID++
	return core.JobID(s.lastID)
}

func (s *server) do(i int, op *core.Op) (r core.Reply) {
	s.at(i, func(d *desk) {
		op.Client, op.Tube = d.client, d.tube
		d.core.Apply(core.Time(time.Now().UnixNano()), op, &r)
	})
	return r
}

// await waits until what depends on a commit may be said; false: never.
func (s *server) await(commit uint64) bool {
	if s.j.Acked() >= commit {
		return true
	}
	s.j.CommitHere()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.j.Acked() < commit && len(s.fails) == 0 {
		s.changed.Wait()
	}
	return s.j.Acked() >= commit
}

// admitted waits until changes are taken; false: never.
func (s *server) admitted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.j.Pressure() != commit.Open && len(s.fails) == 0 {
		s.changed.Wait()
	}
	return len(s.fails) == 0
}

// bodies are all jobs there are.
func (s *server) bodies() map[core.JobID]string {
	m := map[core.JobID]string{}
	for _, d := range s.desks {
		var ids []core.JobID
		d.core.EachID(func(id core.JobID) { ids = append(ids, id) })
		for _, id := range ids {
			var r core.Reply
			d.core.Apply(1, &core.Op{Kind: core.OpPeek, ID: id}, &r)
			m[id] = string(r.Body) + string(r.Large.Append(nil))
		}
	}
	return m
}

// end closes the journal and the cores.
func (s *server) end() error {
	err := s.j.Close()
	if s.busy != nil {
		err = errors.Join(err, s.busy.end())
	}
	for _, d := range s.desks {
		d.core.Close()
	}
	return errors.Join(append(s.fails, err)...)
}

// restart ends the server and opens it again.
func (s *server) restart(shards int) error {
	if err := s.end(); err != nil {
		return err
	}
	return s.open(shards)
}

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
		j := s.j
		must(t, s.restart(2))
		if j.Stats().Migrated == 0 {
			t.Errorf("policy %d: nothing was ever compacted: %+v", policy, j.Stats())
		}
		if err := holds(s.bodies(), list); err != nil {
			t.Errorf("policy %d: %v", policy, err)
		}
		must(t, s.end())
	}
}

// TestPowerCut stops the machine while customers run.
func TestPowerCut(t *testing.T) {
	seeds(t, 10, func(seed uint64) error {
		d := fakedisk.New(seed)
		s := &server{disk: d, policy: SyncAlways, size: SegmentMin}
		d.CrashAt = 20 + rand.New(rand.NewPCG(seed, 5)).IntN(600)
		var list []*customer
		err := s.open(2)
		if err == nil {
			list = s.customers(seed, 8, 400)
		}
		s.end()
		if !d.Dead {
			return fmt.Errorf("only %d operations: %w", d.Ops, err)
		}
		d.Cut()
		d.CrashAt = 0
		if err := s.open(3); err != nil {
			return err
		}
		return errors.Join(holds(s.bodies(), list), s.end())
	})
}

// TestStalled: while the disk does not answer, what waits in memory is bounded, and nothing is
// lost when it does.
func TestStalled(t *testing.T) {
	d := fakedisk.New(3)
	s := &server{disk: d, policy: SyncAlways, size: SegmentMin}
	must(t, s.open(2))
	stall := make(chan struct{})
	d.Before = func(op, _ string) error {
		if op == "sync" {
			<-stall
		}
		return nil
	}
	acked := s.j.Acked()
	puts, last := 0, uint64(0)
	for ; s.j.Pressure() == commit.Open && puts < 10*SegmentMin/1000; puts++ {
		r := s.do(puts, &core.Op{Kind: core.OpPut, ID: s.newID(), TTR: 1, Body: make([]byte, 1000)})
		last = max(last, r.Commit)
	}
	if p := s.j.Pressure(); p != commit.Wait || s.j.Pending() > SegmentMin/2 || tight(s.j) {
		t.Errorf("pressure %d, %d bytes wait, tight %v", p, s.j.Pending(), tight(s.j))
	}
	if now := s.j.Acked(); now > acked+1 {
		t.Errorf("acknowledged up to %d with a disk that stands still at %d", now, acked)
	}
	close(stall)
	if !s.await(last) || !s.admitted() {
		t.Errorf("it does not go on: %v", s.fails)
	}
	must(t, s.end())
	d.Cut()
	must(t, s.open(1))
	if n := len(s.bodies()); n != puts {
		t.Errorf("%d jobs, want %d", n, puts)
	}
	must(t, s.end())
}

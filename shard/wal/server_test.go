package wal_test

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
)

// A server is a journal with its goroutines and cores under locks, for clients
// that run at the same time.
type server struct {
	j      *commit.Journal
	disk   Disk
	policy SyncPolicy
	size   int64
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
	s.j = commit.New(commit.Options{
		Options: Options{
			Disk: s.disk, SegmentSize: s.size, Sync: s.policy, Every: time.Millisecond, Now: time.Now,
			Copy: func(slot uint16, ids []uint64, after uint64) {
				s.at(int(slot), func(d *desk) {
					for _, id := range ids {
						d.core.CopyJob(core.JobID(id), after)
					}
				})
			},
			CopyPause: func(slot uint16, tube []byte) {
				s.at(int(slot), func(d *desk) { d.core.CopyPause(tube) })
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
	})
	var replays []*core.Replay
	for i := range shards {
		d := &desk{core: core.New(nil), log: s.j.Log(i)}
		d.core.RecordTo(&d.log.Buffer)
		replays = append(replays, d.core.Replay())
		s.desks = append(s.desks, d)
	}
	_, err := s.j.Recover(Replayer{
		Workers: shards, Worker: func(slot uint16) int { return int(slot) % shards },
		Apply: func(i int, r *record.Record) error { return replays[i].Apply(r) },
	})
	if err != nil {
		return err
	}
	for _, r := range replays {
		r.Done(core.Time(time.Now().UnixNano()))
	}
	if err := s.j.Start(); err != nil {
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

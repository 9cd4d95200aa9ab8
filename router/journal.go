package router

import (
	"fmt"
	"sync"
	"time"

	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/journal"
	"polystalk/shard/record"
)

// Journal says how jobs are kept across restarts.
type Journal struct {
	Dir         string // locked by the caller
	SegmentSize int64  // bytes
	Sync        journal.SyncPolicy
	Every       time.Duration
	Disk        journal.Disk // nil: that of Dir
}

// journalDescriptors is how many descriptors a journal has at most, with those of its
// directory and the lock.
const journalDescriptors = journal.Descriptors + 2

// A JournalError says that the journal could not be read, or has failed: what
// was not acknowledged may be lost.
type JournalError struct{ Err error }

func (e *JournalError) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e *JournalError) Unwrap() error { return e.Err }

// openJournal recovers what the journal holds into the shards, which were not
// used yet, and starts it.
func (s *Server) openJournal(cfg *Journal) error {
	disk := cfg.Disk
	if disk == nil {
		disk = journal.Dir(cfg.Dir)
	}
	s.failed = make(chan error, 1)
	copier := &shard.Batch{Home: strangers{}}
	recopy := func(slot uint16, ids []uint64, after uint64, tube []byte) {
		s.clock.Stamp(copier)
		s.places.Shard(s.places.OfSlot(slot)).Recopy(copier, ids, after, tube)
	}
	j := journal.New(journal.Options{
		Disk: disk, SegmentSize: cfg.SegmentSize, Sync: cfg.Sync, Every: cfg.Every,
		Shards: len(s.places.Shards()), Now: time.Now, Log: s.log,
		Copy:      func(slot uint16, ids []uint64, after uint64) { recopy(slot, ids, after, nil) },
		CopyPause: func(slot uint16, tube []byte) { recopy(slot, nil, 0, tube) },
		Lives: func(slot uint16, id, after uint64) bool {
			s.clock.Stamp(copier)
			return s.places.Shard(s.places.OfSlot(slot)).NeedsCopy(copier, id, after)
		},
		Notify: s.wakeLoops,
		Fail:   func(err error) { s.failed <- err },
	})
	s.journal = j
	var m *importing
	if cfg.Dir != "" {
		var err error
		if m, err = s.findImport(cfg.Dir, j); err != nil {
			return err
		}
	}
	if m, err := s.recover(j, m); err != nil {
		return err
	} else if err := j.Start(); err != nil || m == nil {
		return err
	} else {
		return m.write(recopy)
	}
}

// strangers is the Home of who never has messages.
type strangers struct{}

func (strangers) Post(*core.Message) {}

// recover replays the journal, or what is to be imported, which it gives back
// to be written. A worker has whole shards, so that each hears
// of its tubes in order.
func (s *Server) recover(j *journal.Journal, m *importing) (*importing, error) {
	workers := min(s.cfg.Loops, len(s.places.Shards()))
	replays := make([]*core.Replay, len(s.places.Shards()))
	var moment shard.Batch
	s.clock.Stamp(&moment)
	for i, sh := range s.places.Shards() {
		replays[i] = sh.Replay()
		replays[i].Ahead = moment.Ahead
	}
	found, err := j.Recover(journal.Replayer{
		Workers: workers,
		Worker:  func(slot uint16) int { return s.places.OfSlot(slot) % workers },
		Apply: func(_ int, r *record.Record) error {
			return replays[s.places.OfSlot(r.Slot)].Apply(r)
		},
	})
	if err != nil {
		return nil, err
	}
	if m != nil {
		wanted, err := m.wanted(found.Segments == 0)
		if err == nil && wanted {
			err = m.read(replays)
		}
		if err != nil {
			return nil, err
		}
		if !wanted {
			m = nil
		}
	}
	now := s.clock.Now()
	for i, r := range replays {
		s.places.Shard(i).Record(j.Log(i))
		r.Done(now) // one after the other: list-tubes shows in which order
	}
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(s.places.Shards()); i += workers {
				s.places.Shard(i).EachID(func(id core.JobID) { s.places.IDs().Note(id, i) })
			}
		})
	}
	wait.Wait()
	s.places.IDs().Resume(j.HighID())
	if found.Segments > 0 {
		if found.Cut != "" {
			s.log.Warn("the journal ended in the middle of a write that was never acknowledged as durable; that was cut off", "at", found.Cut)
		}
		jobs := int64(0)
		for i := range s.places.Shards() {
			jobs += j.Log(i).Buffer.Jobs
		}
		dir := ""
		if c := s.cfg.Journal; c != nil { // nil: a test's, whose disk is none
			dir = c.Dir
		}
		s.log.Info("journal read", "dir", dir, "jobs", jobs,
			"segments", found.Segments, "batches", found.Batches, "bytes", found.Bytes,
			"took", fmt.Sprintf("%.3fs", found.Took.Seconds()))
	}
	return m, nil
}

// Failed delivers the error that ended the journal: nothing more is
// acknowledged, and the process should end. It is nil without a journal.
func (s *Server) Failed() <-chan error { return s.failed }

// wakeLoops has the loops look at what their sessions wait for.
func (s *Server) wakeLoops() {
	// Not under mu: what a loop does next may need it.
	for _, l := range *s.told.Load() {
		l.tell()
	}
}

// binlog is what stats tells about the journal.
func (s *Server) binlog() commit.Stats {
	if s.journal == nil {
		return commit.Stats{}
	}
	return s.journal.Stats()
}

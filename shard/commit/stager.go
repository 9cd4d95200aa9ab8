package commit

import (
	"sync/atomic"

	"polystalk/shard/record"
	"polystalk/shard/stats"
	"polystalk/shard/wal"
	"polystalk/shard/wal/space"
)

// A sequencer puts batches into the order in which they are read, and makes them durable. Only
// the goroutine that makes a commit calls it. A wal.Writer orders them in the files of this
// machine; replicated has several servers agree on the order.
type sequencer interface {
	// Room returns the maximum size of the next batch, with its head and padding. It is always
	// enough for one record, perhaps after Rotate.
	Room() int64
	// Rotate makes more room when the next record does not fit. The next batch begins a
	// segment, so the stager begins it with Globals. Rotate may wait.
	Rotate() error
	// BatchWanted reports whether the current commit needs a batch even without a record.
	BatchWanted() bool
	// Write takes batch number number of commit n, which begins with room for its head. The Commit
	// of its records is at most n+1. The sequencer owns b from then on. The stager owns the
	// returned buffer, of any length, and uses it for the next batch.
	Write(b []byte, number, n uint64) (free []byte, err error)
	// End ends commit n; see sink.Sync.
	End(n uint64) (safe bool, err error)
}

// A stager is the sink of a Journal: it collects records in batches, numbers them, and gives them
// to a sequencer. It does not depend on segments or disks.
//
// Only the goroutine that makes a commit calls its methods. Any goroutine may read atomic fields.
type stager struct {
	ledger *space.Ledger
	to     sequencer

	batch     uint64          // number of the last batch written
	headed    *wal.Position   // nil: no batch of this journal has an Entry
	staging   []byte          // the next batch, after room for its head
	floor     atomic.Uint64   // index of a Floor to write; zero: none
	preamble  int             // bytes of staging that need no batch without further records
	globals   record.Globals  // every segment begins with it; HighID as recovered
	highID    atomic.Uint64   // highest id of a job in a commit
	records   atomic.Uint64   // number since the start
	uncounted uint64          // records of the current commit
	sizes     stats.Histogram // records per commit, without empty commits
}

// resume continues after the last batch. It is called before anything else.
func (s *stager) resume(batch uint64) {
	s.batch = batch
	s.empty(nil)
}

// empty begins a batch in an unused buffer.
func (s *stager) empty(free []byte) {
	s.staging = append(free[:0], make([]byte, wal.BatchHead)...)
	s.preamble = wal.BatchHead
}

// grow adds the change of a Log's sums, and the n bytes that the Log has counted. Only the
// goroutine that makes a commit writes highID.
func (s *stager) grow(n int64, g space.Growth) {
	s.ledger.Take(n, g)
	s.records.Add(g.Records)
	s.uncounted += g.Records
	if g.HighID > s.highID.Load() {
		s.highID.Store(g.HighID)
	}
}

// count adds the live jobs of all Logs, after their shards were replayed.
func (s *stager) count(logs []*Log) {
	for _, l := range logs {
		s.grow(0, l.grown())
	}
}

// highestID returns the highest id that a job has had.
func (s *stager) highestID() uint64 { return max(s.highID.Load(), s.globals.HighID) }

// Write implements sink: it adds records to the next batch, and writes full batches.
func (s *stager) Write(e *entry) error {
	s.grow(e.counted, e.grown)
	data, refs := e.data, e.refs
	if len(refs) == 0 && s.fits(len(data)) {
		s.staging = append(s.staging, data...)
		return nil
	}
	total := len(data)
	for len(data) > 0 {
		var rec, ref []byte
		rec, ref, data, refs = record.Next(data, refs, total-len(data))
		if err := s.stage(rec, ref, e.commit); err != nil {
			return err
		}
	}
	return nil
}

// stage adds one record, and the piece of a body at its end.
func (s *stager) stage(rec, ref []byte, n uint64) error {
	for !s.fits(len(rec) + len(ref)) {
		if len(s.staging) > s.preamble {
			if err := s.give(n); err != nil {
				return err
			}
			continue
		}
		if err := s.rotate(); err != nil {
			return err
		}
	}
	s.staging = append(append(s.staging, rec...), ref...)
	return nil
}

// fits reports whether n more bytes fit into the staged batch.
func (s *stager) fits(n int) bool {
	n += max(len(s.staging), wal.BatchHead)
	return n <= wal.BatchMax && int64(wal.Padded(n)) <= s.to.Room()
}

// rotate makes the next batch the first of a segment. Only a preamble may be staged.
func (s *stager) rotate() error {
	if err := s.to.Rotate(); err != nil {
		return err
	}
	s.stageGlobals()
	return nil
}

// stageGlobals begins the first batch of a segment.
func (s *stager) stageGlobals() {
	s.empty(s.staging)
	if s.headed != nil {
		s.staging = s.headed.Next(s.batch + 1).Append(s.staging)
	}
	s.addGlobals()
	s.preamble = len(s.staging)
}

// addGlobals stages the Globals with which every segment begins.
func (s *stager) addGlobals() {
	g := s.globals
	g.HighID = s.highestID()
	s.staging = g.Append(s.staging)
}

// raise applies the Globals of another server: its highest id, so that no id is given out twice,
// and its last imported file. It is called before any commit is made.
func (s *stager) raise(g *record.Globals) {
	s.globals.Imported = max(s.globals.Imported, g.Imported)
	if g.HighID > s.highID.Load() {
		s.highID.Store(g.HighID)
	}
}

// setImported records the number of the last imported file of beanstalkd.
//
// In a replicated log a Floor at the first entry records it; such a Floor gives up nothing.
func (s *stager) setImported(n, first uint64) {
	if s.globals.Imported = n; first == 0 {
		s.addGlobals()
	} else {
		s.floor.CompareAndSwap(0, first)
	}
}

// stageEpoch begins the first batch of this server in a replicated log.
func (s *stager) stageEpoch(e *record.Epoch, first uint64) {
	s.empty(s.staging)
	s.staging = e.Append(s.staging)
	s.stageFloor(first)
}

// giveFloor stages a Floor at the beginning of a batch. It first writes the records that are
// staged already, so the Floor comes at the end of a commit.
func (s *stager) giveFloor(index, n uint64) error {
	if len(s.staging) > s.preamble {
		if err := s.give(n); err != nil {
			return err
		}
	}
	s.floor.CompareAndSwap(index, 0)
	s.stageFloor(index)
	return nil
}

// stageFloor stages a Floor. No record may be staged before it.
func (s *stager) stageFloor(index uint64) {
	f := record.Floor{Index: index, Globals: s.globals}
	f.HighID = s.highestID()
	s.staging = f.Append(s.staging)
}

// Sync implements sink: it writes the staged batch, and ends the commit.
func (s *stager) Sync(n uint64) (safe bool, err error) {
	if f := s.floor.Load(); f != 0 {
		if err := s.giveFloor(f, n); err != nil {
			return false, err
		}
	}
	if len(s.staging) > s.preamble || s.to.BatchWanted() {
		if !s.fits(0) { // not even the head of an empty batch
			if err := s.rotate(); err != nil {
				return false, err
			}
		}
		if err := s.give(n); err != nil {
			return false, err
		}
	}
	if s.uncounted > 0 {
		s.sizes.Count(s.uncounted)
		s.uncounted = 0
	}
	return s.to.End(n)
}

// give writes the staged batch as part of commit n.
func (s *stager) give(n uint64) error {
	s.batch++
	free, err := s.to.Write(s.staging, s.batch, n)
	if err != nil {
		return err
	}
	s.empty(free)
	return nil
}

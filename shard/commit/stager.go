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
	// Room returns the most bytes of the next batch, with its head and padding. It is always
	// enough for one record, perhaps after Rotate.
	Room() int64
	// Rotate makes more room when the next record does not fit. The next batch begins a
	// segment, so the stager begins it with Globals. Rotate may wait.
	Rotate() error
	// BatchWanted reports whether the commit under way needs a batch even without a record.
	BatchWanted() bool
	// Write takes batch number number, which begins with room for its head, and has no record
	// that is known under a higher number than n+1. The sequencer owns b from then on. The
	// stager owns the returned buffer, of any length, and uses it for the next batch.
	Write(b []byte, number, n uint64) (free []byte, err error)
	// End ends commit n; see sink.Sync.
	End(n uint64) (safe bool, err error)
}

// A stager is the sink of a Journal: it gathers records into batches, numbers them, and gives
// them to a sequencer. It knows neither segments nor disks.
//
// Its methods belong to the goroutine that makes a commit. Atomic fields may be read by any.
type stager struct {
	ledger *space.Ledger
	to     sequencer

	batch     uint64          // number of the last batch written
	headed    *wal.Position   // nil: no batch of this journal has an Entry
	staging   []byte          // the next batch, after room for its head
	floor     atomic.Uint64   // index of a Floor to be written; zero: none
	preamble  int             // bytes of staging that are not worth a batch of their own
	globals   record.Globals  // what every segment begins with; HighID as recovered
	highID    atomic.Uint64   // highest id of a job in a commit
	records   atomic.Uint64   // count since the start
	uncounted uint64          // records of the commit that is being made
	sizes     stats.Histogram // records in each commit that had any
}

// resume goes on behind the last batch. It is called before anything else.
func (s *stager) resume(batch uint64) {
	s.batch = batch
	s.empty(nil)
}

// empty begins a batch in a free buffer.
func (s *stager) empty(free []byte) {
	s.staging = append(free[:0], make([]byte, wal.BatchHead)...)
	s.preamble = wal.BatchHead
}

// grow takes in how a Log's sums have changed, and n bytes that the Log had counted. Only the
// goroutine that makes a commit writes highID.
func (s *stager) grow(n int64, g space.Growth) {
	s.ledger.Take(n, g)
	s.records.Add(g.Records)
	s.uncounted += g.Records
	if g.HighID > s.highID.Load() {
		s.highID.Store(g.HighID)
	}
}

// count takes in what lives in all Logs, once their shards were replayed.
func (s *stager) count(logs []*Log) {
	for _, l := range logs {
		s.grow(0, l.grown())
	}
}

// highestID returns the highest id that a job has had.
func (s *stager) highestID() uint64 { return max(s.highID.Load(), s.globals.HighID) }

// Write implements sink: it adds records to the next batch, and gives away full batches.
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

// stage adds one record, and the piece of a body that ends it.
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

// fits reports whether n more bytes fit into the batch that is being staged.
func (s *stager) fits(n int) bool {
	n += max(len(s.staging), wal.BatchHead)
	return n <= wal.BatchMax && int64(wal.Padded(n)) <= s.to.Room()
}

// rotate has the next batch begin a segment. Nothing is staged but a preamble.
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

// addGlobals stages what every segment begins with.
func (s *stager) addGlobals() {
	g := s.globals
	g.HighID = s.highestID()
	s.staging = g.Append(s.staging)
}

// raise keeps ids from being given out again that another server gave out, and notes which files
// it has taken over. It is called before any commit is made.
func (s *stager) raise(g *record.Globals) {
	s.globals.Imported = max(s.globals.Imported, g.Imported)
	if g.HighID > s.highID.Load() {
		s.highID.Store(g.HighID)
	}
}

// setImported has Globals say up to which file beanstalkd's files were taken over.
//
// In a replicated log a Floor says so, at the first entry there is: it gives up nothing.
func (s *stager) setImported(n, first uint64) {
	if s.globals.Imported = n; first == 0 {
		s.addGlobals()
	} else {
		s.floor.CompareAndSwap(0, first)
	}
}

// stageEpoch begins what this server writes to a replicated log.
func (s *stager) stageEpoch(e *record.Epoch, first uint64) {
	s.empty(s.staging)
	s.staging = e.Append(s.staging)
	s.stageFloor(first)
}

// giveFloor stages a Floor, behind what is staged already: it stands at the beginning of a
// batch, and at the end of a commit.
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

// stageFloor begins a batch with a Floor. Nothing else is staged.
func (s *stager) stageFloor(index uint64) {
	f := record.Floor{Index: index, Globals: s.globals}
	f.HighID = s.highestID()
	s.staging = f.Append(s.staging)
}

// Sync implements sink: it writes what is staged, and ends the commit.
func (s *stager) Sync(n uint64) (safe bool, err error) {
	if f := s.floor.Load(); f != 0 {
		if err := s.giveFloor(f, n); err != nil {
			return false, err
		}
	}
	if len(s.staging) > s.preamble || s.to.BatchWanted() {
		if !s.fits(0) { // not even the head of an empty one
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

// give writes what is staged, as part of commit n.
func (s *stager) give(n uint64) error {
	s.batch++
	free, err := s.to.Write(s.staging, s.batch, n)
	if err != nil {
		return err
	}
	s.empty(free)
	return nil
}

package wal

import (
	"sync/atomic"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	"polystalk/shard/stats"
	"polystalk/shard/wal/space"
)

// batchMax is the most that goes into one batch, in bytes: it is what a reader
// must have in memory, and checks, at once.
const batchMax = 1 << 20

// A sequencer puts batches into the order in which everybody reads them, and makes them
// last: the writer does, in this machine's files. Only who makes a commit calls it.
type sequencer interface {
	// room is how large the next batch may be, in bytes, with its head and padding. It is
	// always enough for one record, perhaps after rotate.
	room() int64
	// rotate makes more room, where there is too little for the next record. A segment
	// begins behind it, so the stager has the next batch begin with Globals. It may wait.
	rotate() error
	// batchWanted reports whether the commit under way is to have a batch though there
	// may be no record for one.
	batchWanted() bool
	// write takes batch number number, which has room for its head in front, and no
	// record that is known under a higher number than n+1. b is the sequencer's from then
	// on; what it returns, of any length, is the stager's for the next batch.
	write(b []byte, number, n uint64) (free []byte, err error)
	// end ends commit n; see commit.Sink.
	end(n uint64) (safe bool, err error)
}

// A stager is the journal's commit.Sink: it gathers records into batches, numbers those, and
// gives them to a sequencer. It knows neither segments nor disks.
//
// Its methods are called by who makes a commit. What is atomic may be read by anyone.
type stager struct {
	ledger *space.Ledger
	to     sequencer

	batch     uint64          // the number of the last one given away
	headed    *heading        // nil: no batch of this journal has an Entry
	staging   []byte          // what is given away next, after room for its head
	floor     atomic.Uint64   // what a Floor is to be written of; zero: none is
	preamble  int             // so much of staging is not worth a batch of its own
	globals   record.Globals  // what every segment begins with; HighID as it was recovered
	highID    atomic.Uint64   // the highest id of a job that a commit has met
	records   atomic.Uint64   // how many there were
	uncounted uint64          // of them, those of the commit that is being made
	sizes     stats.Histogram // of commits that had records: how many
}

// resume goes on behind a last batch. It is called before anything else.
func (s *stager) resume(batch uint64) {
	s.batch = batch
	s.empty(nil)
}

// empty begins a batch in a buffer that nobody else uses.
func (s *stager) empty(free []byte) {
	s.staging = append(free[:0], make([]byte, batchHead)...)
	s.preamble = batchHead
}

// A heading is what the batches of a journal are as entries that had servers besides, and is one
// server's alone by now.
type heading struct {
	batch       uint64 // the last one that was recovered
	index, term uint64 // of it
}

// next is the Entry of a later batch, if that is to have one. A segment begins with it: the first
// one there is could not tell else which entry it begins with, once those before are given up.
func (h *heading) next(batch uint64) *record.Heading {
	i := h.index + batch - h.batch
	return &record.Heading{Index: i, Term: h.term, Commit: i}
}

// grow takes in what has become of a Log's sums, with which come n bytes that it had
// counted. Only who makes a commit writes highID.
func (s *stager) grow(n int64, g commit.Growth) {
	s.ledger.Take(n, g)
	s.records.Add(g.Records)
	s.uncounted += g.Records
	if g.HighID > s.highID.Load() {
		s.highID.Store(g.HighID)
	}
}

// highestID is the highest id that a job has had.
func (s *stager) highestID() uint64 { return max(s.highID.Load(), s.globals.HighID) }

// Write implements commit.Sink: it adds records to the next batch, and gives away what is
// full.
func (s *stager) Write(e *commit.Entry) error {
	s.grow(e.Counted, e.Grown)
	data, refs := e.Data, e.Refs
	if len(refs) == 0 && s.fits(len(data)) {
		s.staging = append(s.staging, data...)
		return nil
	}
	total := len(data)
	for len(data) > 0 {
		var rec, ref []byte
		rec, ref, data, refs = record.Next(data, refs, total-len(data))
		if err := s.stage(rec, ref, e.Commit); err != nil {
			return err
		}
	}
	return nil
}

// stage adds one record, with the piece of a body that goes on with it.
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

// fits reports whether n more bytes go into the batch that is being staged.
func (s *stager) fits(n int) bool {
	n += max(len(s.staging), batchHead)
	return n <= batchMax && int64(padded(n)) <= s.to.room()
}

// rotate has the next batch begin a segment. Nothing is staged but a preamble.
func (s *stager) rotate() error {
	if err := s.to.rotate(); err != nil {
		return err
	}
	s.stageGlobals()
	return nil
}

// stageGlobals begins the first batch of a segment.
func (s *stager) stageGlobals() {
	s.empty(s.staging)
	if s.headed != nil {
		s.staging = s.headed.next(s.batch + 1).Append(s.staging)
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

// raise keeps ids from being given out again that another server gave out, and notes what it has
// taken over. It is called before any commit is made.
func (s *stager) raise(g *record.Globals) {
	s.globals.Imported = max(s.globals.Imported, g.Imported)
	if g.HighID > s.highID.Load() {
		s.highID.Store(g.HighID)
	}
}

// setImported has Globals say what was taken over of beanstalkd's files.
func (s *stager) setImported(n uint64, e *Entries) {
	if s.globals.Imported = n; e == nil {
		s.addGlobals()
	} else {
		s.floor.CompareAndSwap(0, max(1, e.First())) // which gives up nothing
	}
}

// stageEpoch begins what this server writes of a log that several have.
func (s *stager) stageEpoch(e *record.Reign, first uint64) {
	s.empty(s.staging)
	s.staging = e.Append(s.staging)
	s.stageFloor(first)
}

// giveFloor stages the Floor that is to be written, behind what is staged already: it stands at the
// beginning of a batch, and at the end of a commit.
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
	f := record.Bottom{Index: index, Globals: s.globals}
	f.HighID = s.highestID()
	s.staging = f.Append(s.staging)
}

// Sync implements commit.Sink: it gives away what is staged, and ends the commit.
func (s *stager) Sync(n uint64) (safe bool, err error) {
	if f := s.floor.Load(); f != 0 {
		if err := s.giveFloor(f, n); err != nil {
			return false, err
		}
	}
	if len(s.staging) > s.preamble || s.to.batchWanted() {
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
	return s.to.end(n)
}

// give gives away what is staged, as of commit n.
func (s *stager) give(n uint64) error {
	s.batch++
	free, err := s.to.write(s.staging, s.batch, n)
	if err != nil {
		return err
	}
	s.empty(free)
	return nil
}

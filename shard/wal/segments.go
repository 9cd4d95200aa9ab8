package wal

import (
	"fmt"
	"sync"

	"polystalk/shard/wal/space"
)

// A segment is one file of the journal.
type segment struct {
	number uint64
	// file is open for the current segment, for segments that are not synced, and for the
	// next one; else nil.
	file       File
	size       int64
	at         int64  // the end of the last batch
	lastBatch  uint64 // the number of the last batch; only of a recovered segment
	lastIndex  uint64 // the highest index of an entry; only of a recovered segment
	lastCommit uint64 // no record in it has a higher commit number
}

// room returns how many bytes can still be written.
func (s *segment) room() int64 { return s.size - s.at }

// segments are the files of a journal in order: closed ones, the current one, and spares,
// which are prepared and empty.
//
// mu guards the lists. The fields of the current segment belong to the goroutine that makes a
// commit. Only that goroutine changes to the next segment, so it may read cur without mu.
type segments struct {
	id     identity // of the journal; set before anything is written
	first  uint64   // for the next header; only while a new journal is made
	size   int64    // of a new one
	ledger *space.Ledger

	mu sync.Mutex
	// changed is broadcast when a goroutine that waits with mu may continue: the watermark,
	// the failure of the journal, spares, starved, stopping, or alone has changed.
	changed  *sync.Cond
	cur      *segment
	closed   []*segment // oldest first
	spares   []*segment // next one first
	unsynced []*segment // written and not synced, the current one last
	oldest   uint64     // the number of the first segment that is needed
	marked   uint64     // the value of oldest in the last batch
	starved  bool       // the goroutine that makes a commit waits for a spare
	stopping bool       // the journal is being closed
	alone    bool       // there is no keeper: the goroutine that needs a segment prepares it
	pins     []*Pin     // of readers
}

func newSegments(size int64, ledger *space.Ledger) *segments {
	s := &segments{size: size, ledger: ledger}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// recount updates the sizes of segments in the ledger after a change of a list; mu is held.
func (s *segments) recount() {
	closed := sizes(s.closed)
	all := closed + sizes(s.spares)
	if s.cur != nil {
		all += s.cur.size
	}
	s.ledger.SetSegments(all, closed)
}

func sizes(list []*segment) (n int64) {
	for _, s := range list {
		n += s.size
	}
	return n
}

// nextNumber returns the number of the next segment to prepare; mu is held.
func (s *segments) nextNumber() uint64 {
	switch {
	case len(s.spares) > 0:
		return s.spares[len(s.spares)-1].number + 1
	case s.cur != nil:
		return s.cur.number + 1
	case len(s.closed) > 0:
		return s.closed[len(s.closed)-1].number + 1
	}
	return 1
}

// nextIsOpen reports whether the file of the first spare is open; mu is held.
func (s *segments) nextIsOpen() bool { return len(s.spares) > 0 && s.spares[0].file != nil }

// noSpare reports whether no spare is prepared.
func (s *segments) noSpare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spares) == 0
}

// anotherWanted reports whether another segment should be prepared.
func (s *segments) anotherWanted() bool { return s.isStarved() || s.ledger.AnotherWanted() }

// anotherAllowed reports whether another segment keeps the bound. A starved committer, which
// cannot even write deletes, gets one in any case.
func (s *segments) anotherAllowed() bool {
	sums := s.ledger.Sums()
	return s.isStarved() || sums.AnotherAllowed() || sums.PinsAllowed() && s.oldestPinned()
}

// spareAllowed reports whether a segment that is given up may stay as a spare.
func (s *segments) spareAllowed() bool {
	sums := s.ledger.Sums()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spares) < sparesKept && sums.SpareAllowed()
}

func (s *segments) isStarved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starved
}

// open returns how many bytes can be written without opening a file. Only the goroutine that
// makes a commit calls it.
func (s *segments) open() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.cur.room()
	if s.nextIsOpen() {
		n += s.spares[0].room()
	}
	return n
}

// begin makes the first segment of a journal the current one.
func (s *segments) begin(first *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur, s.oldest = first, first.number
	s.unsynced = append(s.unsynced, first)
	s.recount()
}

// advance makes the first spare, whose file is open, the current segment, and returns the one
// before; mu is held.
func (s *segments) advance() (old *segment) {
	old, next := s.cur, s.spares[0]
	if next.number != old.number+1 || next.file == nil || next.at != headerSize {
		panic(fmt.Sprintf("%s, written up to %d, open %v, is to follow %s", SegmentName(next.number), next.at, next.file != nil, SegmentName(old.number)))
	}
	s.spares = append(s.spares[:0], s.spares[1:]...)
	s.closed = append(s.closed, old)
	s.unsynced = append(s.unsynced, next)
	s.cur = next
	s.starved = false
	s.recount()
	return old
}

// add adds a spare with a closed file.
func (s *segments) add(spare *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spares = append(s.spares, spare)
	s.recount()
	s.changed.Broadcast()
}

// dropOldest takes the oldest closed segment off the list, and returns how many are left. It
// reports false, and does nothing, if a new pin keeps the segment.
func (s *segments) dropOldest() (closed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number := s.closed[0].number; s.pinned(number) {
		return len(s.closed), false
	} else {
		s.losePins(number)
	}
	s.closed = append(s.closed[:0], s.closed[1:]...)
	s.recount()
	return len(s.closed), true
}

// broadcast wakes all goroutines that wait for changed.
func (s *segments) broadcast() {
	s.mu.Lock()
	s.changed.Broadcast()
	s.mu.Unlock()
}

// close closes the open files. They must not be in use.
func (s *segments) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.unsynced {
		seg.file.Close()
	}
	if s.nextIsOpen() {
		s.spares[0].file.Close()
	}
	s.unsynced, s.spares = nil, nil
	s.recount()
}

// holding returns the number of the segment with the records of commit n, or of the current one.
func (s *segments) holding(n uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.closed {
		if n <= seg.lastCommit {
			return seg.number
		}
	}
	return s.current()
}

// current returns the number of the current segment, for any goroutine; mu is held.
func (s *segments) current() uint64 {
	if n := len(s.unsynced); n > 0 {
		return s.unsynced[n-1].number
	}
	return s.oldest
}

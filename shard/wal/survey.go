package wal

import (
	"encoding/hex"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"time"

	"polystalk/shard/record"
)

// A Survey describes the contents of a journal's files, whole or damaged. Look and Each change
// nothing; nothing may write to the journal while they run.
type Survey struct {
	UUID     string
	Segments []Segment
	Batches  int64 // that a start would read
	Globals  record.Globals
	// LastIndex and LastTerm are the index and the term of the last entry of a replicated log,
	// torn end included. Batches from before it was replicated count as entries as well.
	LastIndex, LastTerm uint64
	// Losses are the damages in the order of the journal: durable data that
	// cannot be read. A server does not start from a journal with a loss.
	Losses []loss
	// Log is set if the journal has been the log of one server of several.
	Log *Log
	// Torn is the torn end. Nothing in it was acknowledged as durable, and a start cuts it
	// off. Nil: the journal ends with a whole batch.
	Torn *loss

	disk    Disk
	id      identity
	numbers []uint64
	end     uint64 // the first batch that a start cuts off
	log     sightings
}

// A Log describes a journal as a replicated log.
type Log struct {
	First, Last uint64 // indexes of entries
	Replaced    int    // batches that later ones have replaced
}

// A Segment is one file as found.
type Segment struct {
	Number      uint64
	File        string
	Size        int64
	Used        int64 // bytes up to the end of its last batch
	Created     time.Time
	Batches     int
	First, Last uint64 // numbers of its batches; zero: there are none
	From, To    time.Time
}

// A loss is a place with unreadable data.
type loss struct {
	Damage
	End int64 // end of the unreadable bytes from Offset on; zero: there is no file
	// First is the first missing batch, and Next the next one that can be read; zero: unknown.
	First, Next uint64
	Behind      int64 // for a torn end: whole batches that are cut off with it

	sure   bool   // it is damage, even if no batch says that the data was durable
	before int64  // number of batches before it
	oldest uint64 // the oldest needed segment, from those batches
}

// Count returns how many batches are known to be lost.
func (l *loss) Count() uint64 {
	if l.First == 0 || l.Next <= l.First {
		return 0
	}
	return l.Next - l.First
}

// A Batch is the result of one write.
type Batch struct {
	File   string
	Offset int64
	Number uint64
	Time   time.Time
	Broken bool // data before it is missing
	// Replaced says that a later batch replaced it in the replicated log before it was
	// committed, so its changes never took effect.
	Replaced bool
	records  []byte
}

// Records yields the batch's records. Each is valid until the next. An error is the last element:
// the rest of the batch cannot be read.
func (b *Batch) Records() iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		var r record.Record
		for recs := b.records; len(recs) > 0; {
			n, err := record.Parse(&r, recs)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&r, nil) {
				return
			}
			recs = recs[n:]
		}
	}
}

// Look surveys the journal on a disk; nil: there is none. Damage is not an error: the Survey lists
// all of it.
func Look(d Disk) (*Survey, error) {
	numbers, err := listSegments(d, slog.New(slog.DiscardHandler))
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	s := &Survey{disk: d, numbers: numbers}
	if s.id, err = commonIdentity(d, numbers); err != nil {
		return nil, err
	}
	s.UUID = hex.EncodeToString(s.id[:])
	w := newWalk(s)
	synced := uint64(0)
	w.visit = func(seg *Segment, b *batch, _ bool) error {
		synced = max(synced, b.synced)
		s.note(w, seg, b)
		return nil
	}
	if err := w.run(); err != nil {
		return nil, err
	}
	s.Segments = w.segments
	l := &s.log
	s.LastIndex, s.LastTerm = l.last, l.term
	if l.headed {
		s.Log = &Log{l.first, l.last, len(l.replaced)}
	}
	s.judge(w, synced)
	return s, nil
}

// note adds a batch to the survey.
func (s *Survey) note(w *walk, seg *Segment, b *batch) {
	moment := time.Unix(0, b.time)
	if seg.Batches == 0 {
		seg.First, seg.From = b.number, moment
	}
	seg.Batches++
	s.log.see(b)
	seg.Last, seg.To, seg.Used = b.number, moment, b.offset+int64(b.size)
	for r, err := range (&Batch{records: b.records}).Records() {
		if err != nil {
			w.lose(loss{Damage: Damage{seg.File, b.offset, err.Error()}, End: b.offset + int64(b.size), sure: true})
			break
		}
		switch r.Kind {
		case record.KindState, record.KindFloor:
			noteGlobals(&s.Globals, r)
		case record.KindPut, record.KindCopy, record.KindDelete:
			s.Globals.HighID = max(s.Globals.HighID, r.ID)
		}
	}
}

// sightings is a survey's state of a replicated log, with the batches that were replaced. Unlike
// a recovery it continues after missing data.
type sightings struct {
	first, last uint64            // indexes of entries; zero: none yet
	term        uint64            // of the last entry
	floor       uint64            // the highest index of a Floor
	headed      bool              // some batch has an Entry
	replaced    map[uint64]uint64 // replaced batches, with the batches that replaced them
	open        []sighting        // entries that may be replaced
}

// A sighting is an entry that is not known to be committed yet.
type sighting struct{ index, batch uint64 }

// see adds a batch. Batches come in order.
func (l *sightings) see(b *batch) {
	var head record.Entry
	rest, ok := record.ParseEntry(&head, b.records)
	if !ok {
		if l.last++; l.first == 0 {
			l.first, l.last, l.term = b.number, b.number, 1
		}
		l.open = l.open[:0]
		return
	}
	for n := len(l.open) - 1; n >= 0 && l.open[n].index >= head.Index; n-- {
		if l.replaced == nil {
			l.replaced = make(map[uint64]uint64)
		}
		l.replaced[l.open[n].batch] = b.number
		l.open = l.open[:n]
	}
	if l.first == 0 || head.Index < l.first {
		l.first = head.Index
	}
	l.last, l.term, l.headed = head.Index, head.Term, true
	l.open = append(l.open, sighting{head.Index, b.number})
	settled := 0
	for settled < len(l.open) && l.open[settled].index <= head.Commit {
		settled++
	}
	l.open = slices.Delete(l.open, 0, settled)
	if f, ok := floorOf(rest); ok {
		l.floor = max(l.floor, f.Index)
	}
}

// judge distinguishes damage from the torn end, as a recovery does.
func (s *Survey) judge(w *walk, synced uint64) {
	s.end, s.Batches = math.MaxUint64, w.batches
	oldest := w.oldest
	for _, l := range w.losses {
		switch {
		case l.sure:
		case l.First == 0:
			l.Reason = "its first batch cannot be read, but was durable"
		case l.First <= synced:
			l.Reason = fmt.Sprintf("%s cannot be read, but batch %d was durable", l.which(), synced)
		default:
			if s.Torn == nil {
				l.Reason = "a batch was not written completely"
				l.Behind = w.batches - l.before
				s.Torn, s.end, s.Batches, oldest = &l, l.First, l.before, l.oldest
			}
			continue
		}
		s.Losses = append(s.Losses, l)
	}
	if n := len(s.Losses); n > 0 && s.Losses[n-1].before == w.batches {
		return // the batch with the oldest needed file may be lost
	}
	if first := s.numbers[0]; oldest != 0 && first > oldest && s.log.first > s.log.floor {
		missing := loss{Damage: missingFiles(oldest, first)}
		s.Losses = append([]loss{missing}, s.Losses...)
	}
}

// which names the missing batches.
func (l *loss) which() string {
	switch {
	case l.Next == l.First:
		return "something before batch " + fmt.Sprint(l.Next)
	case l.Next == l.First+1 || l.Next == 0:
		return "batch " + fmt.Sprint(l.First)
	}
	return fmt.Sprintf("batches %d to %d", l.First, l.Next-1)
}

// missingFiles is the damage that the files from first up to next-1 are missing.
func missingFiles(first, next uint64) Damage {
	reason := "the file is missing"
	if next > first+1 {
		reason = "the files from it up to " + SegmentName(next-1) + " are missing"
	}
	return Damage{SegmentName(first), 0, reason}
}

// Each calls visit with all readable batches in order. Batches that a start would cut off are
// included if cutOff is set. A Batch is valid until visit returns.
func (s *Survey) Each(cutOff bool, visit func(*Batch) error) error {
	w := newWalk(s)
	w.visit = func(seg *Segment, b *batch, broken bool) error {
		if b.number >= s.end && !cutOff {
			return nil
		}
		by := s.log.replaced[b.number]
		replaced := by != 0 && (cutOff || by < s.end)
		return visit(&Batch{seg.File, b.offset, b.number, time.Unix(0, b.time), broken, replaced, b.records})
	}
	return w.run()
}

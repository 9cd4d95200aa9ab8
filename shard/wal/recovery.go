package wal

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"polystalk/shard/record"
)

// A Damage is the error that durable data of a journal cannot be read.
type Damage struct {
	File   string
	Offset int64
	Reason string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", d.File, d.Offset, d.Reason)
}

// A Replayer applies the records of a journal. One goroutine, worker Worker(slot) of Workers,
// passes the records of a slot in order. An Epoch has no slot: every worker passes it, in order.
type Replayer struct {
	Workers int
	Worker  func(slot uint16) int
	Apply   func(worker int, r *record.Record) error
	// Progress is called with the number of bytes read, from 0 on, and of all bytes; may be nil.
	// The goroutine that calls Recover calls it.
	Progress func(read, all int64)
}

// Recovered is the result of a recovery.
type Recovered struct {
	Segments int
	Bytes    int64 // of records and batches
	Batches  uint64
	Cut      string // where a torn end was cut off, for the log; empty: nowhere
	Globals  record.Globals
	Took     time.Duration

	LastBatch  uint64    // the number of the last batch
	LastCommit uint64    // the highest number of a record's commit
	Headed     *Position // nil: no batch has an Entry, or the log is still replicated
}

// A Position is the end of a journal that was the log of one server of several, and now belongs
// to a server alone.
type Position struct {
	Batch       uint64 // the last batch that was recovered
	Index, Term uint64 // of its entry
}

// Next returns the Entry of a later batch. Each segment begins with one. Otherwise the index of
// its first entry would be unknown once the segments before it are given up.
func (p *Position) Next(batch uint64) *record.Entry {
	i := p.Index + batch - p.Batch
	return &record.Entry{Index: i, Term: p.Term, Commit: i}
}

// progressEvery is how often a long recovery logs its progress.
const progressEvery = 2 * time.Second

// Recover reads the journal, passes its records to p, and prepares to continue after them. It
// cuts off a torn end: nothing in it was acknowledged as durable. If anything else cannot be
// read, the error is a *Damage, and no file is changed.
func (j *WAL) Recover(p Replayer) (*Recovered, error) {
	start := time.Now()
	numbers, err := listSegments(j.disk, j.opts.Logger)
	if err != nil || len(numbers) == 0 {
		return &Recovered{}, err
	}
	r := &recovery{j: j, p: p, numbers: numbers, history: history{keep: j.entries}}
	if err := r.run(); err != nil {
		return nil, err
	}
	if err := r.verdict(); err != nil {
		return nil, err
	}
	r.out.Took = time.Since(start)
	return &r.out, r.adopt()
}

// listSegments returns the numbers of the segments, in order.
func listSegments(d Disk, logger *slog.Logger) ([]uint64, error) {
	names, err := d.List()
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range names {
		if n, ok := numberOf(name); ok {
			numbers = append(numbers, n)
		} else if strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, tmpSuffix) {
			logger.Warn("a file in the journal's directory is not one of its segments, and is left alone", "file", name)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Erase removes a journal.
func Erase(d Disk) error {
	names, err := d.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			if err := d.Remove(name); err != nil {
				return err
			}
		}
	}
	return d.Sync()
}

// A recovery reads a journal at the start.
type recovery struct {
	j       *WAL
	p       Replayer
	numbers []uint64
	out     Recovered
	history history

	segments []*segment // read so far
	expect   uint64     // the next batch's number; zero: not known yet
	oldest   uint64     // the oldest needed segment, from the last batch
	synced   uint64     // the last batch that is proven durable
	last     int        // index of the segment that holds the last batch
	cut      *cut       // where the history ends; nil: behind the last batch
	later    uint64     // the highest synced of batches behind the cut
	behind   int        // number of batches behind the cut
}

// A cut is the place of the first missing batch.
type cut struct {
	index  int // of the segment
	offset int64
	torn   bool // an incomplete batch is there
}

// A scan is the content of one segment.
type scan struct {
	header
	data    []byte
	batches []batch // from the start on, without gaps between them
	end     int64   // of batches
	torn    bool    // an incomplete batch seems to follow
	strays  []batch // whole batches behind end
	err     error
	left    atomic.Int32 // workers that still read data
}

// windowMax bounds the bytes of segments that are in memory at the same time, if they are more
// than one.
const windowMax = 256 << 20

// firstSize returns the size of the first segment's file, or zero if it is unknown.
func (r *recovery) firstSize() int64 {
	f, err := r.j.disk.Open(SegmentName(r.numbers[0]))
	if err != nil {
		return 0
	}
	defer f.Close()
	n, _ := f.Size()
	return n
}

// progress calls Progress with 0, and returns the function to call with the size of each segment
// that was read.
func (r *recovery) progress() func(n int64) {
	if r.p.Progress == nil {
		return func(int64) {}
	}
	all := int64(0)
	for _, n := range r.numbers {
		if f, err := r.j.disk.Open(SegmentName(n)); err == nil { // otherwise reading it will fail
			size, _ := f.Size()
			all += size
			f.Close()
		}
	}
	read := int64(0)
	r.p.Progress(read, all)
	return func(n int64) {
		read += n
		r.p.Progress(read, max(read, all))
	}
}

// run reads all segments and replays them up to the cut.
func (r *recovery) run() error {
	window := max(1, min(r.p.Workers+2, int(windowMax/max(r.j.opts.SegmentSize, r.firstSize()))))
	scans := make(chan chan *scan, window)
	free := make(chan []byte, window+1)
	stop := make(chan struct{})
	defer func() {
		close(stop)
		for c := range scans { // after an error, wait for the readers
			<-c
		}
	}()
	go func() {
		defer close(scans)
		for _, n := range r.numbers {
			c := make(chan *scan, 1)
			select {
			case scans <- c:
			case <-stop:
				return
			}
			go func() {
				var buf []byte
				select {
				case buf = <-free:
				default:
				}
				c <- r.scan(n, buf)
			}()
		}
	}()
	w := startWorkers(r.p, free)
	defer func() { r.out.Globals.HighID = max(r.out.Globals.HighID, slices.Max(w.high)) }()
	shown := time.Now()
	progress := r.progress()
	i := 0
	for c := range scans {
		s := <-c
		if s.err != nil {
			w.wait()
			return s.err
		}
		if err := r.take(i, s, w); err != nil {
			w.wait()
			return err
		}
		progress(int64(len(s.data)))
		if i++; time.Since(shown) >= progressEvery {
			shown = time.Now()
			r.j.opts.Logger.Info("reading the journal", "segments", i, "of", len(r.numbers))
		}
	}
	if err := r.feedRest(w); err != nil {
		w.wait()
		return err
	}
	return w.wait()
}

// scan reads a segment and checks its batches.
func (r *recovery) scan(number uint64, buf []byte) *scan {
	s := &scan{header: header{number: number}}
	name := SegmentName(number)
	if s.data, s.err = readInto(r.j.disk, number, buf); s.err != nil {
		return s
	}
	h, err := parseHeader(s.data)
	if err == nil && h.number != number {
		err = fmt.Errorf("its header says that it is %s", SegmentName(h.number))
	}
	if err != nil {
		s.err = &Damage{name, 0, err.Error()}
		return s
	}
	s.header = h
	s.scan(h.id)
	return s
}

// scan finds the batches of the segment.
func (s *scan) scan(id identity) {
	at := int64(headerSize)
	for b := range batches(s.data, at, id, s.number) {
		s.batches = append(s.batches, b)
		at += int64(b.size)
	}
	s.end = at
	mark := id.mark(s.number)
	s.torn = at+4 <= int64(len(s.data)) && (le.Uint32(s.data[at:]) == mark || sealed(s.data[at:], id, s.number))
	for ; at+BatchHead <= int64(len(s.data)); at += align {
		if le.Uint32(s.data[at:]) == mark {
			if b, ok := batchAt(s.data, at, id, s.number); ok {
				s.strays = append(s.strays, b)
			}
		}
	}
}

// take processes the next segment.
func (r *recovery) take(i int, s *scan, w *workers) error {
	name := SegmentName(s.number)
	if i == 0 {
		r.j.segments.id = s.id
		r.expect = s.begins()
	}
	switch {
	case s.id != r.j.segments.id:
		return &Damage{name, 16, "it belongs to another journal"}
	case i > 0 && s.first != 0:
		return &Damage{name, firstAt, laterBeginning}
	case i > 0 && s.number != r.numbers[i-1]+1:
		return &Damage{SegmentName(r.numbers[i-1] + 1), 0, "the file is missing"}
	}
	r.segments = append(r.segments, &segment{number: s.number, size: int64(len(s.data)), at: s.end})
	if i > 0 && r.expect == 0 && len(s.batches) > 0 {
		// If a later segment has a batch, the first one must have one too.
		return &Damage{SegmentName(r.numbers[0]), headerSize, "its batches are missing"}
	}
	good := 0
	for k := range s.batches {
		b := &s.batches[k]
		if r.cut == nil && r.expect != 0 && b.number != r.expect {
			r.cut = &cut{i, b.offset, false}
			if k == 0 && i > 0 {
				// The missing batch belongs at the end of the segment before.
				r.cut = &cut{i - 1, r.segments[i-1].at, false}
			}
		}
		if r.cut != nil {
			r.stray(b)
			continue
		}
		good++
		r.expect = b.number + 1
		r.oldest = max(r.oldest, b.oldest)
		r.synced = max(r.synced, b.synced)
		r.segments[i].lastBatch = b.number
		r.last = i
		r.out.Batches++
		r.out.Bytes += int64(b.size)
	}
	if r.cut == nil && (s.torn || len(s.strays) > 0) {
		r.cut = &cut{i, s.end, s.torn}
	}
	for k := range s.strays {
		r.stray(&s.strays[k])
	}
	ready, err := r.history.take(s, s.batches[:good])
	if err != nil {
		return err
	}
	for k := range s.batches[:good] {
		r.segments[i].lastIndex = max(r.segments[i].lastIndex, s.batches[k].index)
	}
	return r.feed(w, s, ready)
}

// feed passes ready batches to the workers. After the last one is replayed, the buffer of s is
// used again.
func (r *recovery) feed(w *workers, s *scan, ready []piece) error {
	n := 0
	for _, p := range ready {
		if p.s == s {
			n++
		}
	}
	if n == 0 {
		ready = append(ready, piece{s: s})
		n = 1
	}
	s.left.Store(int32(n * len(w.work)))
	for _, p := range ready {
		if err := w.feed(p, &r.out.Globals); err != nil {
			return err
		}
	}
	return nil
}

// feedRest replays the entries that are not known to be committed, unless consensus will decide
// about them.
func (r *recovery) feedRest(w *workers) error {
	if r.history.keep != nil {
		return nil
	}
	for _, p := range r.history.release(math.MaxUint64) {
		if err := w.feed(p, &r.out.Globals); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) stray(b *batch) {
	r.behind++
	r.later = max(r.later, b.synced)
}

// verdict returns a Damage if a missing batch or file was durable.
func (r *recovery) verdict() error {
	switch {
	case r.expect == 0:
		// A segment is given up only after a later batch is durable.
		return &Damage{SegmentName(r.numbers[0]), headerSize, "its first batch cannot be read, but was durable"}
	case r.cut != nil && r.later >= r.expect:
		s := r.segments[r.cut.index]
		return &Damage{SegmentName(s.number), r.cut.offset,
			fmt.Sprintf("batch %d cannot be read, but batch %d was durable", r.expect, r.later)}
	// This is last, since batches behind a cut may say that the file is not needed.
	case r.oldest != 0 && r.numbers[0] > r.oldest && r.history.first > r.history.floor:
		return &Damage{SegmentName(r.oldest), 0, "the file is missing"}
	}
	return nil
}

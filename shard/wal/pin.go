package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Pin keeps segments while a goroutine copies the journal to another server. There may be
// several; each belongs to one goroutine.
//
// While there are pins the directory may hold twice its bound. Beyond that, or when the disk is
// full, pinned segments are given up too and the pin is lost: no client waits for a reader.
type Pin struct {
	j *WAL

	// These are guarded by segments.mu.
	from uint64 // the first segment that is kept
	lost bool

	last uint64 // the last batch that was read; belongs to the reader
}

// ErrPinLost is the error of a reader that has lost its pin.
var ErrPinLost = errors.New("the journal grew to twice its bound, or its disk became full, while it was read: the unread segments were removed")

// Pin keeps all existing and future segments. The journal must be open.
func (j *WAL) Pin() *Pin {
	s := j.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Pin{j: j, from: s.cur.number}
	if len(s.closed) > 0 {
		p.from = s.closed[0].number
	}
	s.pins = append(s.pins, p)
	return p
}

// Pins returns the number of pins.
func (j *WAL) Pins() int {
	s := j.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pins)
}

// Keep unpins the segments before the given number.
func (p *Pin) Keep(from uint64) {
	s := p.j.segments
	s.mu.Lock()
	p.from = max(p.from, from)
	s.mu.Unlock()
	p.j.wakeKeeper.wake()
}

// Release ends the pin. Later calls do nothing.
func (p *Pin) Release() {
	s := p.j.segments
	s.mu.Lock()
	s.pins = slices.DeleteFunc(s.pins, func(other *Pin) bool { return other == p })
	s.mu.Unlock()
	p.j.wakeKeeper.wake()
}

// Lost reports whether a pinned segment was given up. The pieces that were read before are valid.
func (p *Pin) Lost() bool {
	s := p.j.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.lost
}

// Bytes returns approximately how many bytes are left to read; more may be written meanwhile.
func (p *Pin) Bytes() int64 {
	s := p.j.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.cur.size
	for _, seg := range s.closed {
		if seg.number >= p.from {
			n += seg.at
		}
	}
	return n
}

// Each calls visit with the contents of the pinned segments, from the oldest to the current end
// of the journal. The pieces of a segment are its header, and whole batches with verified
// checksums, from offset 0 on without gaps. They are valid until visit returns. A segment that was
// visited to its end is no longer pinned. Each never blocks the writer.
func (p *Pin) Each(visit func(number uint64, at int64, piece []byte) error) error {
	buf := make([]byte, min(readStep, p.j.opts.SegmentSize/16))
	for {
		p.j.segments.mu.Lock()
		number := p.from
		p.j.segments.mu.Unlock()
		r, err := p.open(number, buf)
		if err != nil {
			return err
		}
		last, err := r.each(visit)
		r.file.Close()
		if err != nil || last {
			return err
		}
		buf = r.buf
		p.Keep(number + 1)
	}
}

// find reports whether a segment is closed, and then the end of its last batch.
func (p *Pin) find(number uint64) (end int64, closed bool) {
	s := p.j.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.closed {
		if seg.number == number {
			return min(seg.at, seg.size), true // the last batch may have no padding in the file
		}
	}
	return 0, false
}

// A pinReader reads a segment that a pin keeps.
type pinReader struct {
	pin    *Pin
	number uint64
	file   File
	size   int64 // of the file
	at     int64 // bytes passed to visit so far
	buf    []byte
}

// readStep is how many bytes a pinReader reads at once; fewer for small segments, and more for a
// larger batch.
const readStep = 1 << 20

// crumbsMax is how many small pieces of the current segment, which are written while it is read,
// a reader takes before it stops.
const crumbsMax = 64

// open opens a segment for reading into buf.
func (p *Pin) open(number uint64, buf []byte) (*pinReader, error) {
	f, err := p.j.disk.Open(SegmentName(number))
	if err != nil {
		if p.Lost() {
			err = ErrPinLost
		}
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &pinReader{pin: p, number: number, file: f, size: size, buf: buf}, nil
}

// each passes the segment to visit; last reports that it is the current one.
func (r *pinReader) each(visit func(number uint64, at int64, piece []byte) error) (last bool, err error) {
	for crumbs := 0; ; {
		written := r.pin.j.writer.written.Load()
		end, closed := r.pin.find(r.number)
		if closed && r.at == end {
			return false, nil
		}
		piece, err := r.next()
		switch {
		case err != nil:
			return false, err
		case len(piece) == 0 && (closed || r.pin.last < written):
			return false, &Damage{SegmentName(r.number), r.at, "a written batch can no longer be read"}
		case len(piece) == 0:
			return true, nil
		}
		if err := visit(r.number, r.at-int64(len(piece)), piece); err != nil {
			return false, err
		}
		// The writer continues, so reading until there is nothing new might never end.
		if len(piece) < len(r.buf)/2 {
			crumbs++
		}
		if crumbs >= crumbsMax {
			if _, closed := r.pin.find(r.number); !closed {
				return true, nil
			}
		}
	}
}

// next returns the next whole batches; none if the next batch is not complete yet.
func (r *pinReader) next() ([]byte, error) {
	n, err := r.read()
	if err != nil {
		return nil, err
	}
	good := r.whole(r.buf[:n])
	if r.pin.Lost() {
		return nil, ErrPinLost // the file may be used for another segment by now
	}
	if good == 0 {
		if !r.grow(r.buf[:n]) {
			return nil, nil
		}
		return r.next()
	}
	r.at += int64(good)
	return r.buf[:good], nil
}

// read fills the buffer from r.at on.
func (r *pinReader) read() (int, error) {
	if r.at >= r.size {
		return 0, nil
	}
	n, err := r.file.ReadAt(r.buf[:min(int64(len(r.buf)), r.size-r.at)], r.at)
	if err != nil && err != io.EOF {
		return 0, fmt.Errorf("reading %s: %w", SegmentName(r.number), err)
	}
	return n, nil
}

// whole returns the length of the header and the whole batches at the beginning of data.
func (r *pinReader) whole(data []byte) int {
	id, at := r.pin.j.segments.id, 0
	if r.at == 0 {
		h, err := parseHeader(data)
		if err != nil || h.id != id || h.number != r.number {
			return 0
		}
		at = headerSize
		if first := h.begins(); first > 0 {
			r.pin.last = max(r.pin.last, first-1)
		}
	}
	for {
		b, ok := batchAt(data, int64(at), id, r.number)
		if !ok {
			return at
		}
		// The last batch may have no padding in the file.
		next := min(at+b.size, int(r.size-r.at))
		if next > len(data) {
			return at
		}
		r.pin.last = b.number
		at = next
	}
}

// grow enlarges the buffer if data begins with a batch that does not fit into it.
func (r *pinReader) grow(data []byte) bool {
	if r.at == 0 || len(data) < BatchHead || le.Uint32(data) != r.pin.j.segments.id.mark(r.number) {
		return false
	}
	need := int64(Padded(BatchHead + int(le.Uint32(data[8:]))))
	if need = min(need, r.size-r.at); need <= int64(len(r.buf)) {
		return false
	}
	r.buf = make([]byte, need)
	return true
}

// errPinned is the reason not to give up a segment now.
var errPinned = errors.New("a segment is being read")

// oldestPinned reports whether a pin keeps the oldest segment.
func (s *segments) oldestPinned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.closed) > 0 && s.pinned(s.closed[0].number)
}

// pinned reports whether a pin keeps a segment, and the directory is below twice its bound; mu is
// held.
func (s *segments) pinned(number uint64) bool {
	if !slices.ContainsFunc(s.pins, func(p *Pin) bool { return p.from <= number }) {
		return false
	}
	sums := s.ledger.Sums()
	return !s.ledger.Full() && sums.PinsAllowed()
}

// losePins marks the pins of a segment as lost, before the segment is given up; mu is held.
func (s *segments) losePins(number uint64) {
	for _, p := range s.pins {
		if p.from <= number {
			p.lost = true
		}
	}
}

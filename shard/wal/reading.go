package wal

import (
	"fmt"

	"polystalk/shard/record"
)

// Read returns entries from lo up to hi-1: at least one, and at most about max bytes. The newest
// come from memory. The error is ErrCompacted, ErrUnavailable, or an error of the disk.
func (e *Entries) Read(lo, hi uint64, max int) ([]Entry, error) {
	var list []Entry
	r := reading{e: e}
	defer r.close()
	for bytes := 0; lo < hi && (len(list) == 0 || bytes < max); {
		more, err := r.some(lo, hi, max-bytes)
		if err != nil && len(list) == 0 {
			return nil, err
		} else if err != nil {
			return list, nil // the next call reports it
		}
		for i := range more {
			if bytes += more[i].size(); bytes > max && len(list) > 0 {
				return list, nil
			}
			list = append(list, more[i])
		}
		lo += uint64(len(more))
	}
	return list, nil
}

// A reading reads entries that are not in memory any more.
type reading struct {
	e      *Entries
	number uint64 // of the open segment
	file   File
}

// close closes its file.
func (r *reading) close() {
	if r.file != nil {
		r.file.Close()
	}
}

// some returns entries from lo on: at least one, from memory or of one stretch.
func (r *reading) some(lo, hi uint64, max int) ([]Entry, error) {
	e := r.e
	e.mu.Lock()
	switch {
	case lo < e.index.First():
		e.mu.Unlock()
		return nil, ErrCompacted
	case e.index.empty() || hi > e.index.Last()+1:
		e.mu.Unlock()
		return nil, ErrUnavailable
	}
	if list := e.recent.from(lo, hi, max); len(list) > 0 {
		e.mu.Unlock()
		return list, nil
	}
	s := e.index.find(lo)
	terms := make([]uint64, 0, s.To-s.From)
	for i := s.From; i < s.To; i++ {
		term, _ := e.index.Term(i)
		terms = append(terms, term)
	}
	e.mu.Unlock()
	list, err := r.stretch(s, terms, lo, hi, max)
	if err != nil && lo < e.First() {
		return nil, ErrCompacted // its segment was given up meanwhile
	}
	return list, err
}

// stretch reads the entries of a stretch from lo on. terms are the terms of all its entries.
func (r *reading) stretch(s stretch, terms []uint64, lo, hi uint64, max int) (list []Entry, err error) {
	if err := r.open(s.Segment); err != nil {
		return nil, err
	}
	at, bytes := s.Offset, 0
	for i := s.From; i < min(s.To, hi); i++ {
		b, err := r.batch(s.Segment, at)
		if err != nil {
			return nil, fmt.Errorf("reading entry %d again: %w", i, err)
		}
		at += int64(b.size)
		if i < lo {
			continue
		}
		x := Entry{Index: i, Term: terms[i-s.From], Data: b.records}
		var head record.Entry
		if rest, ok := record.ParseEntry(&head, b.records); ok {
			if head.Index != i || head.Term != x.Term {
				return nil, fmt.Errorf("%s at offset %d has entry %d of term %d, but entry %d of term %d was expected", SegmentName(s.Segment), b.offset, head.Index, head.Term, i, x.Term)
			}
			if x.Kind, x.Data = head.Kind, rest; x.Kind != record.Normal {
				x.Data = head.Change
			}
		}
		if bytes += x.size(); bytes > max && len(list) > 0 {
			break
		}
		list = append(list, x)
	}
	return list, nil
}

// open opens a segment.
func (r *reading) open(number uint64) error {
	if r.file != nil && r.number == number {
		return nil
	}
	r.close()
	r.file = nil
	f, err := r.e.disk.Open(SegmentName(number))
	if err != nil {
		return err
	}
	r.file, r.number = f, number
	return nil
}

// batch reads the batch at an offset into new memory.
func (r *reading) batch(segment uint64, at int64) (*batch, error) {
	var head [BatchHead]byte
	if _, err := r.file.ReadAt(head[:], at); err != nil {
		return nil, err
	}
	n := int64(le.Uint32(head[8:]))
	if size, err := r.file.Size(); err != nil {
		return nil, err
	} else if at+BatchHead+n > size {
		return nil, fmt.Errorf("%s ends within the batch at offset %d", SegmentName(segment), at)
	}
	data := make([]byte, BatchHead+n)
	if _, err := r.file.ReadAt(data, at); err != nil {
		return nil, err
	}
	b, ok := batchAt(data, 0, r.e.segments.id, segment)
	if !ok {
		return nil, fmt.Errorf("%s no longer has a batch at offset %d", SegmentName(segment), at)
	}
	b.offset = at
	return &b, nil
}

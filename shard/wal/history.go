package wal

import (
	"fmt"
	"slices"

	"polystalk/shard/record"
)

// A history turns the batches that a recovery reads into entries of a log. It holds back entries
// that are not known to be committed, drops those that were replaced before that, and returns
// the committed ones in order.
//
// A batch without an Entry was written by a server outside a cluster. It is the next entry, and
// committed. In a journal that begins so, the index of an entry is the number of its batch. Where
// the two differ, each segment begins with an Entry that has the index (see stager.headed).
type history struct {
	first  uint64 // the first entry; zero: none yet
	last   uint64 // the entry that was read last
	term   uint64 // its term
	high   uint64 // the highest index of an entry so far, even if it was replaced
	commit uint64 // no entry up to here will be replaced
	floor  uint64 // the highest index of a Floor, committed or not
	headed bool   // some batch has an Entry

	held    []piece // entries not known to be committed, in order
	keep    *Entries
	changes []Entry // committed membership changes, if keep is set

	settled, settledAt uint64 // the highest committed Floor, and the index of its entry
}

// take takes the batches of a segment in order, and returns the batches that can be replayed
// now, with their indexes.
func (h *history) take(s *scan, batches []batch) (ready []piece, err error) {
	plain := true
	for k := range batches {
		b := &batches[k]
		var head record.Entry
		rest, ok := record.ParseEntry(&head, b.records)
		if !ok {
			h.alone(b)
		} else if err := h.enter(s, b, &head, rest); err != nil {
			return nil, err
		}
		if h.keep != nil {
			h.keep.index.Append(b.index, h.term, place{Segment: s.number, Offset: b.offset}, int64(b.size))
		}
		if plain && !ok && len(h.held) == 0 {
			continue
		}
		if plain && k > 0 {
			h.held = append(h.held, piece{s, batches[:k:k]}) // all are committed
		}
		plain = false
		h.held = append(h.held, piece{s, batches[k : k+1 : k+1]})
	}
	if plain && len(h.held) == 0 {
		return []piece{{s, batches}}, nil
	}
	ready = h.release(h.commit)
	h.retain(s)
	return ready, nil
}

// alone adds a batch without an Entry.
func (h *history) alone(b *batch) {
	if h.first == 0 {
		h.last, h.first, h.term = b.number-1, b.number, 1
	}
	h.last++
	b.index, h.high, h.commit = h.last, max(h.high, h.last), max(h.commit, h.last)
}

// enter adds a batch with an Entry; rest are the records behind the Entry.
func (h *history) enter(s *scan, b *batch, head *record.Entry, rest []byte) error {
	damaged := func(reason string, args ...any) error {
		return &Damage{SegmentName(s.number), b.offset, fmt.Sprintf(reason, args...)}
	}
	switch {
	case h.first != 0 && head.Index > h.last+1:
		return damaged("entry %d follows on entry %d", head.Index, h.last)
	case head.Index <= min(h.commit, h.last):
		return damaged("entry %d appears again, although entries up to %d were committed", head.Index, min(h.commit, h.last))
	}
	b.index = head.Index
	h.drop(head.Index)
	if h.first == 0 || head.Index < h.first {
		h.first = head.Index
	}
	h.last, h.term, h.headed = head.Index, head.Term, true
	h.high, h.commit = max(h.high, h.last), max(h.commit, head.Commit)
	if f, ok := floorOf(rest); ok {
		h.floor = max(h.floor, f.Index)
	}
	return nil
}

// drop forgets the held entries that an entry with that index replaces.
func (h *history) drop(index uint64) {
	for n := len(h.held); n > 0; n = len(h.held) {
		p := &h.held[n-1]
		k, _ := slices.BinarySearchFunc(p.batches, index, func(b batch, i uint64) int { return int(int64(b.index) - int64(i)) })
		if p.batches = p.batches[:k]; k > 0 {
			return
		}
		h.held = h.held[:n-1]
	}
}

// release returns the held batches up to an entry.
func (h *history) release(upTo uint64) (ready []piece) {
	n := 0
	for n < len(h.held) && h.held[n].batches[len(h.held[n].batches)-1].index <= upTo {
		n++
	}
	for _, p := range h.held[:n] {
		if h.keep != nil {
			h.settle(p.batches)
		}
		if k := len(ready) - 1; k >= 0 && ready[k].s == p.s {
			ready[k].batches = append(ready[k].batches, p.batches...)
		} else {
			ready = append(ready, p)
		}
	}
	h.held = slices.Delete(h.held, 0, n)
	return ready
}

// settle keeps the parts of committed batches that are not for shards: membership changes and Floors.
func (h *history) settle(batches []batch) {
	for i := range batches {
		var head record.Entry
		rest, ok := record.ParseEntry(&head, batches[i].records)
		switch {
		case !ok:
		case head.Kind != record.Normal:
			h.changes = append(h.changes, Entry{head.Index, head.Term, head.Kind, slices.Clone(head.Change)})
		default:
			if f, ok := floorOf(rest); ok && f.Index >= h.settled {
				h.settled, h.settledAt = f.Index, head.Index
			}
		}
	}
}

// retain copies the held batches of a segment, since its buffer will be used again.
func (h *history) retain(s *scan) {
	var kept *scan
	for i := range h.held {
		p := &h.held[i]
		if p.s != s {
			continue
		}
		if kept == nil {
			kept = &scan{header: s.header}
		}
		p.s = kept
		p.batches = slices.Clone(p.batches)
		for k := range p.batches {
			p.batches[k].records = slices.Clone(p.batches[k].records)
		}
	}
}

// floorOf returns the Floor among the records without a slot at the beginning of a batch, behind
// its Entry.
func floorOf(recs []byte) (f record.Floor, ok bool) {
	for len(recs) > 0 && !record.KindOf(recs).HasSlot() {
		var r record.Record
		n, err := record.Parse(&r, recs)
		if err != nil {
			break
		}
		if r.Kind == record.KindFloor {
			f, ok = *r.Floor, true
		}
		recs = recs[n:]
	}
	return f, ok
}

package wal

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// A walk visits all readable batches in order, and collects the places of missing ones.
type walk struct {
	s     *Survey
	visit func(seg *Segment, b *batch, broken bool) error

	segments []Segment
	losses   []loss
	batches  int64
	expect   uint64 // the next batch's number; zero: not known yet
	oldest   uint64 // the oldest needed segment, from the batches

	// The last batch ends in segments[index] at offset. rough reports that an incomplete batch
	// follows there.
	index  int
	offset int64
	rough  bool
	broken bool // data is missing since the last batch
	cause  int  // index in losses of its possible cause; -1: none yet
}

func newWalk(s *Survey) *walk {
	w := &walk{s: s, offset: headerSize, cause: -1}
	// The header replaces this guess if it can be read.
	w.expect = (&header{number: s.numbers[0]}).begins()
	return w
}

func (w *walk) run() error {
	var buf []byte
	for i, n := range w.s.numbers {
		name := SegmentName(n)
		if i > 0 && n != w.s.numbers[i-1]+1 {
			w.hide(loss{Damage: missingFiles(w.s.numbers[i-1]+1, n)})
		}
		data, err := w.read(name, n, buf)
		if err != nil {
			return err
		}
		buf = data
		w.segments = append(w.segments, Segment{Number: n, File: name, Size: int64(len(data)), Used: min(headerSize, int64(len(data)))})
		if !w.header(i, data) {
			continue
		}
		if err := w.segment(i, data); err != nil {
			return err
		}
	}
	if w.rough {
		w.gap(w.index, w.offset, w.segments[w.index].Size, 0)
	} else if w.batches == 0 && w.expect == 0 {
		w.gap(0, headerSize, w.segments[0].Size, 0)
	}
	return nil
}

// lose adds a loss.
func (w *walk) lose(l loss) {
	l.before, l.oldest = w.batches, w.oldest
	w.losses = append(w.losses, l)
	w.broken = true
}

// hide is lose for a loss that may explain why batches are missing later.
func (w *walk) hide(l loss) {
	l.sure = true
	w.lose(l)
	w.cause = len(w.losses) - 1
}

// gap adds the loss of the batches after the last one.
func (w *walk) gap(index int, offset, end int64, next uint64) {
	w.lose(loss{Damage: Damage{w.segments[index].File, offset, ""}, End: end, First: w.expect, Next: next})
	w.rough = false
}

// blockSize is the unit in which a file with read errors is read.
const blockSize = 4096

// read returns a segment's bytes, with zeros in place of unreadable blocks.
func (w *walk) read(name string, number uint64, buf []byte) ([]byte, error) {
	data, err := readInto(w.s.disk, number, buf)
	if err == nil {
		return data, nil
	}
	f, openErr := w.s.disk.Open(name)
	if openErr != nil {
		return nil, openErr
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data = make([]byte, size)
	var bad loss
	for at := int64(0); at < size; at += blockSize {
		block := data[at:min(at+blockSize, size)]
		_, err := f.ReadAt(block, at)
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reading %s: the file became shorter while it was read", name)
		}
		clear(block)
		if bad.End != at || at == 0 {
			if bad.End > 0 {
				w.hide(bad)
			}
			bad = loss{Damage: Damage{name, at, "the disk cannot read it: " + err.Error()}}
		}
		bad.End = at + int64(len(block))
	}
	if bad.End > 0 {
		w.hide(bad)
	}
	return data, nil
}

// header checks a segment's header; false: the file belongs to another journal. If the header is
// damaged, the batches are still read, since they have their own checksums.
func (w *walk) header(i int, data []byte) bool {
	seg := &w.segments[i]
	h, err := parseHeader(data)
	switch {
	case err == nil && h.id != w.s.id:
		w.hide(loss{Damage: Damage{seg.File, 16, "it belongs to another journal"}, End: seg.Size})
		return false
	case err == nil && h.number != seg.Number:
		err = fmt.Errorf("its header says that it is %s", SegmentName(h.number))
	case err == nil && i > 0 && h.first != 0:
		w.hide(loss{Damage: Damage{seg.File, firstAt, laterBeginning}, End: headerSize})
		return true
	case err == nil:
		if i == 0 {
			w.expect = h.begins()
		}
		seg.Created = time.Unix(0, h.created)
		return true
	}
	w.hide(loss{Damage: Damage{seg.File, 0, err.Error()}, End: min(headerSize, seg.Size)})
	return true
}

// segment finds the batches of a segment.
func (w *walk) segment(i int, data []byte) error {
	seg := &w.segments[i]
	mark := w.s.id.mark(seg.Number)
	due := int64(headerSize)
	for at := due; at+4 <= int64(len(data)); {
		var b batch
		ok := le.Uint32(data[at:]) == mark
		looks := ok || at == due && sealed(data[at:], w.s.id, seg.Number)
		if ok {
			b, ok = batchAt(data, at, w.s.id, seg.Number)
		}
		if !ok {
			if looks && at == due {
				w.index, w.offset, w.rough = i, at, true
			}
			at += align
			continue
		}
		at += int64(b.size)
		if b.number < w.expect {
			// It is out of order, so it counts as missing data.
			if !w.rough {
				w.index, w.offset, w.rough = i, due, true
			}
			continue
		}
		w.compare(i, &b, due)
		due = at
		broken := w.broken
		w.batches++
		w.expect = b.number + 1
		w.oldest = max(w.oldest, b.oldest)
		w.index, w.offset = i, at
		w.rough, w.broken, w.cause = false, false, -1
		if err := w.visit(seg, &b, broken); err != nil {
			return err
		}
	}
	return nil
}

// compare adds the losses before b, which was expected at the offset due.
func (w *walk) compare(i int, b *batch, due int64) {
	apart := b.offset != due
	whole := b.number == w.expect || w.expect == 0 && i == 0
	switch {
	case whole && !apart && !w.rough:
	case apart:
		w.gap(i, due, b.offset, b.number)
	case w.cause >= 0 && !w.rough:
		l := &w.losses[w.cause]
		l.First, l.Next = w.expect, b.number
		if l.End > 0 && l.Offset == 0 {
			l.End = max(l.End, w.sizeOf(l.File))
		}
	case w.index == i:
		w.gap(i, w.offset, b.offset, b.number)
	default:
		w.gap(w.index, w.offset, w.segments[w.index].Size, b.number)
	}
}

func (w *walk) sizeOf(name string) int64 {
	for _, s := range w.segments {
		if s.File == name {
			return s.Size
		}
	}
	return 0
}

// commonIdentity returns the identity in most of the valid headers. If no header is valid, it is
// the identity in most of the damaged ones.
func commonIdentity(d Disk, numbers []uint64) (identity, error) {
	var best, rough identity
	good, claimed := make(map[identity]int), make(map[identity]int)
	for _, n := range numbers {
		f, err := d.Open(SegmentName(n))
		if err != nil {
			return best, err
		}
		head := make([]byte, headerSize)
		got, _ := f.ReadAt(head, 0) // the walk will report what is wrong with it
		f.Close()
		if got < headerSize {
			continue
		}
		h, err := parseHeader(head)
		id := h.id
		if err == nil {
			if good[id]++; good[id] > good[best] {
				best = id
			}
		}
		copy(id[:], head[16:])
		if claimed[id]++; id != (identity{}) && claimed[id] > claimed[rough] {
			rough = id
		}
	}
	if len(good) == 0 {
		return rough, nil
	}
	return best, nil
}

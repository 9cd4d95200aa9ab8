package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"strconv"
	"strings"

	"polystalk/shard/record"
)

// A segment is a file of fixed size. It is filled with zeros before it is used, so later writes
// change neither its size nor its blocks:
//
//	header: magic 8 | version u32 | crc u32 | uuid 16 | number u64 | created i64 | first u64 | zeros to 64
//	batch:  mark u32 | crc u32 | length u32 | 0 u32 | batch u64 | time i64 | synced u64 | oldest u64 | records
//	batch, batch, … each on a multiple of 16 bytes, then zeros or old bytes
//
// A batch is the result of one write. Batches are numbered without gaps over all segments. In the
// log of one server of several each batch begins with an Entry (package record), and is that entry.
// The checksum (CRC-32C of the bytes that follow it) and the mark depend on the journal's uuid and
// the segment's number, so old bytes from an earlier use of the file never look like a batch.
//
// synced is the last batch known to be durable when this one was written. If that batch cannot
// be read, it is damage and not the torn end of a crash. oldest is the first segment that is
// still needed, so that a missing file is noticed.
//
// first is zero, except in the first segment of a journal that continues another one. There it
// is the number of the journal's first batch, which otherwise is batch 1 of segment 1. Such a
// header has version 2, and all others version 1. So an older program that does not know first
// rejects such a journal instead of reporting damage, until its first segment is given up.
const (
	prefix     = "journal."
	tmpSuffix  = ".tmp"
	magic      = "polystlk"
	version    = 1
	beginning  = 2 // the version of a header that has a first
	headerSize = 64
	align      = 16

	// SegmentMin is the minimum size of a segment, in bytes: a few of the largest records.
	SegmentMin = 256 << 10

	// BatchHead is the size of a batch's head, in bytes.
	BatchHead = 48
	// BatchMax is the maximum size of a batch, in bytes. A reader checks a whole batch in memory.
	BatchMax = 1 << 20
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// identity is the uuid of a journal.
type identity [16]byte

// seed starts the checksums of one segment.
func (id identity) seed(number uint64) uint32 {
	return crc32.Checksum(le.AppendUint64(id[:], number), castagnoli)
}

// mark starts every batch of a segment.
func (id identity) mark(number uint64) uint32 { return ^id.seed(number) | 1 }

// SegmentName returns the name of a segment's file. numberOf reads it.
func SegmentName(number uint64) string { return fmt.Sprintf("%s%010d", prefix, number) }

func numberOf(name string) (n uint64, ok bool) {
	digits, found := strings.CutPrefix(name, prefix)
	if !found {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0 && SegmentName(n) == name
}

// A header is the header of a segment.
type header struct {
	id      identity
	number  uint64
	created int64
	first   uint64 // the first batch of the journal; zero: not stored here
}

// firstAt is the offset of first in a header.
const firstAt = 48

// laterBeginning is the error if a file other than the first one has a first.
const laterBeginning = "its header says that the journal begins with it, and there are files before it"

// begins returns the number of the first batch of a journal with this header in its first file;
// zero: unknown, since earlier segments were given up.
func (h *header) begins() uint64 {
	if h.first == 0 && h.number == 1 {
		return 1
	}
	return h.first
}

// appendHeader appends a segment's header.
func appendHeader(b []byte, h *header) []byte {
	at := len(b)
	b = append(b, magic...)
	if h.first == 0 {
		b = le.AppendUint32(b, version)
	} else {
		b = le.AppendUint32(b, beginning)
	}
	b = le.AppendUint32(b, 0)
	b = append(b, h.id[:]...)
	b = le.AppendUint64(b, h.number)
	b = le.AppendUint64(b, uint64(h.created))
	b = le.AppendUint64(b, h.first)
	b = append(b, make([]byte, headerSize-(len(b)-at))...)
	le.PutUint32(b[at+12:], crc32.Checksum(b[at+16:at+headerSize], castagnoli))
	return b
}

// parseHeader reads a segment's header.
func parseHeader(b []byte) (h header, err error) {
	switch {
	case len(b) < headerSize:
		return h, errors.New("it is too short for a segment's header")
	case string(b[:8]) != magic:
		return h, errors.New("it does not start with a segment's header")
	case le.Uint32(b[8:]) != version && le.Uint32(b[8:]) != beginning:
		return h, fmt.Errorf("its format is version %d; this program reads versions %d and %d: use the program version that has written it, or a later one", le.Uint32(b[8:]), version, beginning)
	case le.Uint32(b[12:]) != crc32.Checksum(b[16:headerSize], castagnoli):
		return h, errors.New("the checksum of its header is wrong")
	}
	copy(h.id[:], b[16:])
	h.number, h.created, h.first = le.Uint64(b[32:]), int64(le.Uint64(b[40:])), le.Uint64(b[48:])
	if (le.Uint32(b[8:]) == beginning) != (h.first != 0) {
		return header{}, fmt.Errorf("its format is version %d, and it begins with batch %d: one of the two is wrong", le.Uint32(b[8:]), h.first)
	}
	return h, nil
}

// A batch is a decoded batch; records aliases the input.
type batch struct {
	offset  int64
	size    int // on disk, with padding
	number  uint64
	time    int64
	synced  uint64
	oldest  uint64
	index   uint64 // the index of its entry, once that is known; see history
	records []byte
}

// Padded returns n rounded up to the next possible start of a batch.
func Padded(n int) int { return (n + align - 1) &^ (align - 1) }

// sealBatch completes b, which starts with room for the head, and pads it.
func sealBatch(b []byte, id identity, segment uint64, h *batch) []byte {
	le.PutUint32(b, id.mark(segment))
	le.PutUint32(b[8:], uint32(len(b)-BatchHead))
	le.PutUint32(b[12:], 0)
	le.PutUint64(b[16:], h.number)
	le.PutUint64(b[24:], uint64(h.time))
	le.PutUint64(b[32:], h.synced)
	le.PutUint64(b[40:], h.oldest)
	le.PutUint32(b[4:], crc32.Update(id.seed(segment), castagnoli, b[8:]))
	for len(b)%align != 0 {
		b = append(b, 0)
	}
	return b
}

// batchAt reads the batch at an offset of a segment's bytes.
func batchAt(data []byte, at int64, id identity, segment uint64) (h batch, ok bool) {
	if at+BatchHead > int64(len(data)) {
		return h, false
	}
	b := data[at:]
	if le.Uint32(b) != id.mark(segment) || !sealed(b, id, segment) {
		return h, false
	}
	n := int64(le.Uint32(b[8:]))
	return batch{
		offset: at, size: Padded(BatchHead + int(n)),
		number: le.Uint64(b[16:]), time: int64(le.Uint64(b[24:])),
		synced: le.Uint64(b[32:]), oldest: le.Uint64(b[40:]),
		records: b[BatchHead : BatchHead+n],
	}, true
}

// batches yields the batches of a segment's bytes from an offset on, up to the first incomplete
// one.
func batches(data []byte, at int64, id identity, segment uint64) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		for at := at; ; {
			b, ok := batchAt(data, at, id, segment)
			if !ok || !yield(b) {
				return
			}
			at += int64(b.size)
		}
	}
}

// each yields each record of a batch. A checksum has verified their lengths.
func (b *batch) each(yield func(rec []byte) bool) {
	for recs := b.records; len(recs) > 0; {
		n := record.Len(recs)
		if !yield(recs[:n]) {
			return
		}
		recs = recs[n:]
	}
}

// sealed reports whether b starts with a batch, with any mark.
func sealed(b []byte, id identity, segment uint64) bool {
	if len(b) < BatchHead {
		return false
	}
	n := int64(le.Uint32(b[8:]))
	return BatchHead+n <= int64(len(b)) && le.Uint32(b[4:]) == crc32.Update(id.seed(segment), castagnoli, b[8:BatchHead+n])
}

// readInto returns the bytes of a segment's file, in buf if that is large enough.
func readInto(d Disk, number uint64, buf []byte) ([]byte, error) {
	name := SegmentName(number)
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	if _, err := f.ReadAt(buf, 0); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return buf, nil
}

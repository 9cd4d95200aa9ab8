package wal

import (
	"errors"

	"polystalk/shard/record"
	"polystalk/shard/wal/space"
)

// errNoCopy is why a segment is not given up now.
var errNoCopy = errors.New("there is no room to copy the large bodies that begin in a segment")

// A copyRoom is the space that a compaction has promised to itself. Live jobs of one segment
// fit into the reserve, except large bodies that begin there and go on in other segments: a job
// is copied whole. A compaction without room for all of them would use up the reserve half-way,
// and then nothing, not even a delete, could go on until space came from outside.
type copyRoom struct {
	bytes map[uint64]int64 // promised, by job
}

// largeOf tells how long a record's body is that follows in Chunks, or zero.
func largeOf(rec []byte) int64 {
	var r record.Record
	if rec[5]&record.FlagChunked == 0 {
		return 0
	}
	if _, err := record.Parse(&r, rec); err != nil {
		return 0 // it was replayed, or is ours
	}
	return int64(r.Chunked)
}

// take promises room for what of a segment has to be copied and is large, and makes it.
// Its error is errNoCopy if the disk has no room for that.
func (r *copyRoom) take(c *compaction, data []byte) error {
	k, need := c.k, r.measure(c, data)
	for !k.ledger.Promise(need) {
		switch err := k.preparer.add(); {
		case errors.Is(err, errNoSpace):
			return errNoCopy
		case err != nil:
			return err // what is passing says nothing of the disk: the next try is soon
		}
	}
	return nil
}

// measure notes what every large body takes that begins in a segment and lives, and
// returns the sum.
func (r *copyRoom) measure(c *compaction, data []byte) (need int64) {
	sums := c.k.ledger.Sums()
	lives := c.k.opts.Lives
	r.bytes = make(map[uint64]int64)
	for at := int64(headerSize); at < c.segment.at; {
		b, ok := batchAt(data, at, c.k.segments.id, c.segment.number)
		if !ok {
			break // compaction.run reports it
		}
		at += int64(b.size)
		for recs := b.records; len(recs) > 0; recs = recs[record.Len(recs):] {
			if kind := record.KindOf(recs); kind != record.KindPut && kind != record.KindCopy {
				continue
			}
			n, id := largeOf(recs), record.IDOf(recs)
			if n == 0 || r.bytes[id] > 0 || lives != nil && !lives(record.SlotOf(recs), id, c.segment.lastCommit) {
				continue
			}
			r.bytes[id] = sums.Footprint(n)
			need += r.bytes[id]
		}
	}
	return need
}

// copied gives back what was promised for a job: it is in a Log, or gone.
func (r *copyRoom) copied(l *space.Ledger, id uint64) {
	if n := r.bytes[id]; n > 0 {
		l.GiveBack(n)
		delete(r.bytes, id)
	}
}

// end gives back the rest.
func (r *copyRoom) end(l *space.Ledger) {
	for id := range r.bytes {
		r.copied(l, id)
	}
}

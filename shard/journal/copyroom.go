package journal

import (
	"errors"

	"polystalk/shard/record"
)

// errNoCopy is why a segment is not given up now.
var errNoCopy = errors.New("there is no room to copy the large bodies that begin in a segment")

// A copyRoom is what a compaction has promised to itself. What lives in one segment goes
// into the reserve, but for large bodies that begin there and go on in others: a job is
// copied whole. To begin without room for all of that would use up the reserve half-way,
// and nobody, who deletes neither, could go on until space came from outside.
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
func (r *copyRoom) take(c *compaction, data []byte) error {
	j, need := c.j, int64(0)
	r.bytes = make(map[uint64]int64)
	for at := int64(headerSize); at < c.s.at; {
		b, ok := batchAt(data, at, j.id, c.s.number)
		if !ok {
			return nil // who copies says so
		}
		at += int64(b.size)
		for recs := b.records; len(recs) > 0; recs = recs[record.Len(recs):] {
			if k := record.KindOf(recs); k != record.Put && k != record.Copy {
				continue
			}
			n, id := largeOf(recs), record.IDOf(recs)
			if n == 0 || r.bytes[id] > 0 || j.opts.Lives != nil && !j.opts.Lives(record.SlotOf(recs), id, c.s.lastCommit) {
				continue
			}
			r.bytes[id] = j.footprint(n)
			need += r.bytes[id]
		}
	}
	for need > 0 && j.available() < need {
		if !j.addSpare() {
			if err := j.failure(); err != nil {
				return err
			}
			return errNoCopy
		}
	}
	j.promised.Add(need)
	return nil
}

// copied gives back what was promised for a job: it is in a Log, or gone.
func (r *copyRoom) copied(j *Journal, id uint64) {
	if n := r.bytes[id]; n > 0 {
		j.promised.Add(-n)
		delete(r.bytes, id)
	}
}

// end gives back the rest.
func (r *copyRoom) end(j *Journal) {
	for id := range r.bytes {
		r.copied(j, id)
	}
}

// postpone has compaction wait until less lives, or there is more to give up.
func (j *Journal) postpone() {
	j.mu.Lock()
	j.round = round{vain: len(j.closed), live: j.live.Load()}
	j.mu.Unlock()
}

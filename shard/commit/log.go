package commit

import (
	"sync"

	"polystalk/shard/record"
	"polystalk/shard/wal/space"
)

// A Log takes the records of one shard. The shard's owner appends to Buffer between Begin and
// End; a commit takes what is there at other times.
type Log struct {
	c  *committer
	mu sync.Mutex

	// Buffer belongs to the caller of Begin until End.
	Buffer record.Buffer

	queued bool   // it is on the committer's list, linked by next
	next   *Log   // the one after it on that list
	spare  []byte // an empty buffer that an earlier commit gave back

	// counted is how many bytes of Buffer committerOptions.appended was told of: the bytes
	// before Data[countedData] and Refs[countedRefs].
	counted                  int64
	countedData, countedRefs int

	was space.Growth // the Buffer's sums at the last call of grown

	_ [64]byte // logs of two shards share no cache line
}

// Begin opens the Buffer. The caller owns the shard, and goes on without waiting for a disk.
// Buffer.Commit is the number under which new records will be safe, or one above.
func (l *Log) Begin() {
	l.mu.Lock()
	c := l.c
	l.Buffer.Tight, l.Buffer.Full = c.tight.Load(), c.Pressure() == Full
	if !l.queued {
		// Queued first, then the number read: a commit that begins after the reading
		// finds this log in the queue. If the queue was taken between the two, the
		// records go with that commit and the number is one too high; the committer then
		// adds an empty commit.
		l.queued = true
		c.enqueue(l)
		l.Buffer.Commit = c.begun.Load() + 1
	}
}

// End closes the Buffer. It reports whether to call Request once the shard is free: Request may
// make a system call.
func (l *Log) End() bool {
	b := &l.Buffer
	if len(b.Data)-l.countedData >= l.c.opts.step || len(b.Refs) > l.countedRefs {
		n := int64(len(b.Data) - l.countedData)
		for _, r := range b.Refs[l.countedRefs:] {
			n += int64(len(r.Piece))
		}
		l.countedData, l.countedRefs = len(b.Data), len(b.Refs)
		l.counted += n
		l.c.opts.appended(n)
	}
	some := len(b.Data) > 0
	l.mu.Unlock()
	return some && !l.c.requested.Load()
}

// request has what was appended committed; see committer.Request.
func (l *Log) Request() { l.c.request() }

// spareMax is the largest buffer kept for the next commit, in bytes.
const spareMax = 256 << 10

// take empties the log into e for commit e.commit. It reports whether some of the records are
// waited for under the next number.
func (l *Log) take(e *entry) (late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.Buffer
	e.data, e.refs, e.counted, e.grown = b.Data, b.Refs, l.counted, l.grown()
	b.Data, b.Refs = l.spare, nil
	l.spare = nil
	l.queued = false
	l.counted, l.countedData, l.countedRefs = 0, 0, 0
	return b.Commit > e.commit && len(e.data) > 0
}

// giveBack lets the log use a buffer again that take gave out.
func (l *Log) giveBack(data []byte) {
	if cap(data) == 0 || cap(data) > spareMax {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Buffer.Data == nil {
		l.Buffer.Data = data[:0]
	} else {
		l.spare = data[:0]
	}
}

// grown returns what has changed since it was last called. The caller makes a commit, or has
// replayed the shard and not appended yet.
func (l *Log) grown() space.Growth {
	b, was := &l.Buffer, &l.was
	g := space.Growth{
		Live: b.Live - was.Live, Jobs: b.Jobs - was.Jobs, Pauses: b.Pauses - was.Pauses,
		Records: b.Records - was.Records, Largest: b.Largest, HighID: b.HighID,
	}
	l.was = space.Growth{Live: b.Live, Jobs: b.Jobs, Pauses: b.Pauses, Records: b.Records}
	return g
}

package commit

import (
	"sync"

	"polystalk/shard/record"
	"polystalk/shard/wal/space"
)

// A Log takes the records of one shard. The shard's owner appends to Buffer between Begin and
// End; a commit takes the records at other times.
type Log struct {
	c  *committer
	mu sync.Mutex

	// Buffer belongs to the caller of Begin until End.
	Buffer record.Buffer

	queued bool   // it is on the committer's list, linked by next
	next   *Log   // the next Log on that list
	spare  []byte // an empty buffer that an earlier commit gave back

	// counted is how many bytes of Buffer were reported to committerOptions.appended: those
	// before Data[countedData] and Refs[countedRefs].
	counted                  int64
	countedData, countedRefs int

	was space.Growth // the Buffer's sums at the last call of grown

	_ [64]byte // logs of two shards share no cache line
}

// Begin opens the Buffer. The caller owns the shard. Begin does not wait for a disk. Buffer.Commit
// is the number of the commit of new records, or one more.
func (l *Log) Begin() {
	l.mu.Lock()
	c := l.c
	l.Buffer.Tight, l.Buffer.Full = c.tight.Load(), c.Pressure() == Full
	if !l.queued {
		// First enqueue, then read the number: a commit that begins after the read finds this
		// log in the queue. If a commit takes the queue between the two steps, the records belong
		// to that commit and the number is one too high; the committer then adds an empty commit.
		l.queued = true
		c.enqueue(l)
		l.Buffer.Commit = c.begun.Load() + 1
	}
}

// End closes the Buffer. It reports whether the caller must call Request after it has released the
// shard, since Request may make a system call.
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

// Request requests a commit of the appended records; see committer.request.
func (l *Log) Request() { l.c.request() }

// spareMax is the largest buffer kept for the next commit, in bytes.
const spareMax = 256 << 10

// take moves the records to e for commit e.commit. It reports whether replies to some of them wait
// for the next number.
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

// giveBack gives a buffer from take back to the log.
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

// grown returns the changes of the sums since its last call. The caller makes a commit, or has
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

package commit

import (
	"sync"

	"polystalk/shard/record"
)

// A Log takes the records of one shard. The shard's owner appends to Buffer between
// Begin and End; who makes a commit takes what is there in between. Make one with New.
type Log struct {
	c  *Committer
	mu sync.Mutex

	// Buffer belongs to who is between Begin and End.
	Buffer record.Buffer

	queued bool   // it is on the committer's list, linked by next
	next   *Log   // the one after it on that list
	spare  []byte // an empty buffer that an earlier commit gave back

	// counted is how many of the bytes in Buffer the Sink's owner has been told of, by
	// Options.Appended: those before Data[countedData] and Refs[countedRefs].
	counted                  int64
	countedData, countedRefs int

	was Growth // the Buffer's sums when Grown was last asked

	_ [64]byte // logs of two shards share no cache line
}

// Begin opens the Buffer; who calls it owns the shard, and goes on without waiting for a
// disk. Buffer.Commit is the number under which what is now appended will be safe, or one
// above.
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

// End closes the Buffer. It reports whether Request should be called, once the shard is
// free: that may make a system call.
func (l *Log) End() bool {
	b := &l.Buffer
	if len(b.Data)-l.countedData >= l.c.opts.Step || len(b.Refs) > l.countedRefs {
		n := int64(len(b.Data) - l.countedData)
		for _, r := range b.Refs[l.countedRefs:] {
			n += int64(len(r.Piece))
		}
		l.countedData, l.countedRefs = len(b.Data), len(b.Refs)
		l.counted += n
		l.c.opts.Appended(n)
	}
	some := len(b.Data) > 0
	l.mu.Unlock()
	return some && !l.c.requested.Load()
}

// Request has what was appended committed; see Committer.Request.
func (l *Log) Request() { l.c.Request() }

// spareMax is the largest buffer kept for the next commit, in bytes.
const spareMax = 256 << 10

// take empties the log into e for commit e.Commit. It reports whether some of what e
// then has will be waited for under the next number.
func (l *Log) take(e *Entry) (late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.Buffer
	e.Data, e.Refs, e.Counted, e.Grown = b.Data, b.Refs, l.counted, l.Grown()
	b.Data, b.Refs = l.spare, nil
	l.spare = nil
	l.queued = false
	l.counted, l.countedData, l.countedRefs = 0, 0, 0
	return b.Commit > e.Commit && len(e.Data) > 0
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

// A Growth is what has become of a Log's sums since they were last looked at. Largest and
// HighID are not differences, but the highest there have been.
type Growth struct {
	Live    int64  // bytes that a Copy of every job would take
	Jobs    int64  // jobs that live
	Pauses  int64  // bytes that the ends of all pauses will take
	Records uint64 // records that were appended
	Largest int64  // bytes of the largest record of a job so far
	HighID  uint64 // no job has had a higher id
}

// Grown is what has changed since it was last called. Whoever makes a commit calls it, and
// who opens the storage, once, when the shard has been replayed and before anything is
// appended.
func (l *Log) Grown() Growth {
	b, was := &l.Buffer, &l.was
	g := Growth{
		Live: b.Live - was.Live, Jobs: b.Jobs - was.Jobs, Pauses: b.Pauses - was.Pauses,
		Records: b.Records - was.Records, Largest: b.Largest, HighID: b.HighID,
	}
	l.was = Growth{Live: b.Live, Jobs: b.Jobs, Pauses: b.Pauses, Records: b.Records}
	return g
}

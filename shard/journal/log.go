package journal

import (
	"sync"

	"polystalk/shard/commit"
	"polystalk/shard/record"
)

// A Log takes the records of one shard. The shard's owner appends to Buffer
// between Begin and End; the committer takes what is there in between.
type Log struct {
	j  *Journal
	mu sync.Mutex

	// Buffer belongs to who is between Begin and End.
	Buffer record.Buffer

	queued  bool // on the list of those to be written
	next    *Log // … which is linked here
	spare   []byte
	counted int64 // bytes that Journal.pending knows of, up to
	atData  int   // … here in Buffer.Data
	atRefs  int   // … and here in Buffer.Refs

	// As of the last time the committer looked.
	live, jobs, pauses int64
	records            uint64

	_ [64]byte
}

// pendingStep is how often a Log tells the journal how much waits in it, in
// bytes: less often than it appends, since the sum is everybody's. What they keep
// to themselves is together little of a segment.
const pendingStep = 16 << 10

// Begin opens the Buffer. Buffer.Commit is the number under which what is now
// appended will be durable, or one above.
func (l *Log) Begin() {
	l.mu.Lock()
	l.Buffer.Tight, l.Buffer.Full = l.j.tight.Load(), l.j.Pressure() == commit.Full
	if !l.queued {
		// Queued first, then the number read: a commit that begins after the
		// reading finds this log in the queue. If the queue was taken between
		// the two, the records go with that commit and the number is one too
		// high; the committer then adds an empty commit.
		l.queued = true
		l.j.enqueue(l)
		l.Buffer.Commit = l.j.begun.Load() + 1
	}
}

// End closes the Buffer. It reports whether Wake should be called, once the
// shard is free: it may make a system call.
func (l *Log) End() bool {
	b := &l.Buffer
	if len(b.Data)-l.atData >= l.j.step || len(b.Refs) > l.atRefs {
		n := int64(len(b.Data) - l.atData)
		for _, r := range b.Refs[l.atRefs:] {
			n += int64(len(r.Piece))
		}
		l.atData, l.atRefs = len(b.Data), len(b.Refs)
		l.counted += n
		l.j.pending.Add(n)
		l.j.raise()
	}
	some := len(b.Data) > 0
	l.mu.Unlock()
	return some && !l.j.awake.Load()
}

// Wake has what was appended committed.
func (l *Log) Wake() { l.j.Wake() }

// spareMax is the largest buffer kept for the next round, in bytes.
const spareMax = 256 << 10

// take empties the log for commit number k. late is true when some of what it
// gives will be waited for under the next number.
func (l *Log) take(k uint64) (data []byte, refs []record.Ref, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.Buffer
	data, refs, late = b.Data, b.Refs, b.Commit > k && len(b.Data) > 0
	b.Data, b.Refs = l.spare, nil
	l.spare = nil
	l.queued = false
	l.j.taken += l.counted // pending until it is written
	l.counted, l.atData, l.atRefs = 0, 0, 0
	l.j.account(b.Live-l.live, b.Jobs-l.jobs, b.HighID)
	l.j.records.Add(b.Records - l.records)
	l.j.pauses.Add(b.Pauses - l.pauses)
	if b.Largest > l.j.largest.Load() {
		l.j.largest.Store(b.Largest) // by the committer alone
	}
	l.live, l.jobs, l.pauses, l.records = b.Live, b.Jobs, b.Pauses, b.Records
	return data, refs, late
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

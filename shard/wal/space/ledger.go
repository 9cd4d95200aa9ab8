package space

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// A Ledger keeps the sums. Any goroutine may call its methods at any time, except methods that
// name their caller. None of them blocks for more than a few instructions.
type Ledger struct {
	segment int64

	promised atomic.Int64
	wanted   atomic.Int64
	pending  atomic.Int64
	free     atomic.Int64
	live     atomic.Int64
	jobs     atomic.Int64
	pauses   atomic.Int64
	largest  atomic.Int64
	size     atomic.Int64
	closed   atomic.Int64

	// elsewhere is the value of sentEver at which the room on a majority of the other servers
	// ends. sentBy is sentEver at the last two calls of SetElsewhere; its caller owns it.
	elsewhere atomic.Int64
	sentEver  atomic.Int64
	sentBy    [2]int64

	full  atomic.Bool // a segment is wanted, and the last try to prepare one found no space
	asked atomic.Bool // Fits waits for a new measurement of the disk

	// taken is the part of pending that has left the Logs and is not written yet. It belongs to the
	// goroutine that makes a commit.
	taken int64
	// sent is the part of pending that was proposed and is not written here yet; see Send.
	sent atomic.Int64

	// mu is held to promise bytes, so that no two claims get the same bytes. It also guards the
	// fields below, which decide whether a Claim is refused.
	mu       sync.Mutex
	tries    uint64 // number of attempts to prepare a segment
	refused  uint64 // the last of these attempts that found no space
	measured uint64 // number of measurements of the disk
	disk     int64  // free bytes at the last measurement, without the segments
}

// New returns the Ledger of a journal without segments. segment is the size of new segments, in
// bytes.
func New(segment int64) *Ledger {
	l := &Ledger{segment: segment}
	l.elsewhere.Store(math.MaxInt64)
	return l
}

// Sums returns the current sums. A byte that moves from promised to pending, or from pending to
// the written bytes, may be counted twice, but is never missing: promised is read before pending
// and pending before free, in the order in which bytes move.
func (l *Ledger) Sums() Sums {
	s := Sums{Segment: l.segment, Wanted: l.wanted.Load()}
	s.Promised = l.promised.Load()
	s.Pending = l.pending.Load()
	s.Free = l.free.Load()
	s.Live, s.Jobs, s.Pauses, s.Largest = l.live.Load(), l.jobs.Load(), l.pauses.Load(), l.largest.Load()
	s.Size, s.Closed = l.size.Load(), l.closed.Load()
	return s
}

// Full reports whether a segment is wanted for which there is no space.
func (l *Ledger) Full() bool { return l.full.Load() }

// SetFull sets Full, and returns its value before. The keeper calls it.
func (l *Ledger) SetFull(full bool) (before bool) { return l.full.Swap(full) }

// Pressure returns the current pressure; see Sums.Pressure. It is also Full while the other
// servers have no room.
func (l *Ledger) Pressure() (p Pressure, tight bool) {
	s := l.Sums()
	if p, tight = s.Pressure(l.Full()); p != Full && !s.fitsInto(l.roomElsewhere()) {
		return Full, true
	}
	return p, tight
}

// SetElsewhere sets the room, n bytes, of a majority of the other servers; math.MaxInt64 is no
// limit. The caller measured n after the last but one call of SetElsewhere. So all bytes that were
// sent since that call are subtracted: maybe too many, but never too few.
func (l *Ledger) SetElsewhere(n int64) {
	end := int64(math.MaxInt64)
	if n < end-l.sentBy[0] {
		end = l.sentBy[0] + n
	}
	l.elsewhere.Store(end)
	l.sentBy = [2]int64{l.sentBy[1], l.sentEver.Load()}
}

// roomElsewhere returns the room of the other servers, before the pending bytes are subtracted.
func (l *Ledger) roomElsewhere() int64 {
	end := l.elsewhere.Load()
	if end == math.MaxInt64 {
		return end
	}
	return end - l.sentEver.Load() + l.sent.Load() // sent bytes are pending, too
}

// FullElsewhere reports whether the other servers have no room for changes.
func (l *Ledger) FullElsewhere() bool { return l.FullWith(l.roomElsewhere()) }

// FullWith reports whether a server with the same jobs and n free bytes has no room for changes.
func (l *Ledger) FullWith(n int64) bool {
	s := l.Sums()
	return !s.fitsInto(n)
}

// FullHere reports whether this server has no room for changes.
func (l *Ledger) FullHere() bool {
	s := l.Sums()
	p, _ := s.Pressure(l.Full())
	return p == Full
}

// AnotherWanted reports whether another segment is wanted now.
func (l *Ledger) AnotherWanted() bool { s := l.Sums(); return s.anotherWanted() }

// Append adds n bytes that wait in a Log.
func (l *Ledger) Append(n int64) { l.pending.Add(n) }

// Take records that a commit has taken n bytes of Append, which stay pending, and adds the change
// of the Log's sums. Only the goroutine that makes a commit calls it, and only Take writes largest.
func (l *Ledger) Take(n int64, g Growth) {
	l.taken += n
	l.live.Add(g.Live)
	l.jobs.Add(g.Jobs)
	l.pauses.Add(g.Pauses)
	if g.Largest > l.largest.Load() {
		l.largest.Store(g.Largest)
	}
}

// Write records that n of the taken bytes were written to a segment. They leave free before they
// leave pending. The goroutine that makes a commit calls it.
func (l *Ledger) Write(n int64) {
	l.free.Add(-n)
	l.settle(min(l.taken, n))
}

// Written records that all taken bytes are written. The goroutine that makes a commit calls it.
func (l *Ledger) Written() { l.settle(l.taken) }

// Send records that n of the taken bytes are proposed to the other servers. They stay pending
// until Land. The goroutine that makes a commit calls Send, and Written once a commit is sent.
func (l *Ledger) Send(n int64) {
	known := min(l.taken, n)
	l.taken -= known
	l.sent.Add(n)
	l.sentEver.Add(n)
	l.pending.Add(n - known)
}

// Land records that n of the sent bytes were written to a segment. It subtracts them from free
// before it subtracts them from pending, so a reader may count them twice but never misses them.
// One goroutine calls it.
func (l *Ledger) Land(n int64) {
	l.free.Add(-n)
	n = min(n, l.sent.Load())
	l.sent.Add(-n)
	take("pending", &l.pending, n)
}

func (l *Ledger) settle(n int64) {
	l.taken -= n
	take("pending", &l.pending, n)
}

// take subtracts n bytes from a counter, and panics if the counter has fewer.
func take(what string, counter *atomic.Int64, n int64) {
	if left := counter.Add(-n); left < 0 {
		panic(fmt.Sprintf("the counter of %s bytes is %d after %d bytes were subtracted", what, left, n))
	}
}

// AddFree adds n free bytes of a prepared segment. n is negative if a segment was removed, or its
// end stays empty.
func (l *Ledger) AddFree(n int64) { l.free.Add(n) }

// SetSegments sets the sizes of all segments and of the closed ones.
func (l *Ledger) SetSegments(size, closed int64) {
	l.size.Store(size)
	l.closed.Store(closed)
}

// Try returns the number of a new attempt to prepare a segment. The keeper calls it.
func (l *Ledger) Try() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	return l.tries
}

// Refuse records that an attempt found no space.
func (l *Ledger) Refuse(try uint64) {
	l.mu.Lock()
	l.refused = try
	l.mu.Unlock()
	l.full.Store(true)
}

// Asked reports, once, that Fits waits for Measured.
func (l *Ledger) Asked() bool { return l.asked.Swap(false) }

// Measured records that the disk has n free bytes, without the segments.
func (l *Ledger) Measured(n int64) {
	l.mu.Lock()
	l.disk = n
	l.measured++
	l.mu.Unlock()
}

package space

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// A Ledger keeps the sums. Its methods may be called by anyone at any time, but for those
// that name their caller. None of them waits for more than a few instructions.
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

	// elsewhere is the value of sentEver at which the room of a majority of the other servers
	// ends. sentBy is sentEver at the last two calls of SetElsewhere; its caller owns it.
	elsewhere atomic.Int64
	sentEver  atomic.Int64
	sentBy    [2]int64

	full  atomic.Bool // a segment is wanted, and the last try to prepare one found no space
	asked atomic.Bool // Fits wants to know what the disk has

	// taken is how much of pending has left the Logs and is not written yet. It belongs to the
	// goroutine that makes a commit.
	taken int64
	// sent is how much of pending was proposed and is not written here yet; see Send.
	sent atomic.Int64

	// mu is held while something is promised, so that two do not get the same bytes, and
	// for the answers below that a Claim is refused by.
	mu       sync.Mutex
	tries    uint64 // how often a segment was tried to be prepared
	refused  uint64 // the last of these tries that found no space
	measured uint64 // how often the disk was asked what it has
	disk     int64  // bytes that it had then, besides the segments
}

// New returns the Ledger of a journal without any segment. segment is the size of new ones, in
// bytes.
func New(segment int64) *Ledger {
	l := &Ledger{segment: segment}
	l.elsewhere.Store(math.MaxInt64)
	return l
}

// Sums are the figures of this moment. A byte on its way from promised to pending, or from
// pending to what is written, may be in it twice, but is never missing: promised is read
// before pending and pending before free, which is how bytes move.
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

// SetFull says so, and reports what was said before. The keeper calls it.
func (l *Ledger) SetFull(full bool) (before bool) { return l.full.Swap(full) }

// Pressure returns the pressure of this moment; see Sums.Pressure. Changes are refused as well
// while the other servers have no room for them.
func (l *Ledger) Pressure() (p Pressure, tight bool) {
	s := l.Sums()
	if p, tight = s.Pressure(l.Full()); p != Full && !s.fitsInto(l.roomElsewhere()) {
		return Full, true
	}
	return p, tight
}

// SetElsewhere notes that a majority of the other servers had room for n bytes, at some moment
// since the call before the last; math.MaxInt64 is no limit. What is sent from then on takes from
// that.
func (l *Ledger) SetElsewhere(n int64) {
	end := int64(math.MaxInt64)
	if n < end-l.sentBy[0] {
		end = l.sentBy[0] + n
	}
	l.elsewhere.Store(end)
	l.sentBy = [2]int64{l.sentBy[1], l.sentEver.Load()}
}

// roomElsewhere is how many bytes others have room for by now, besides what waits here to be sent.
func (l *Ledger) roomElsewhere() int64 {
	end := l.elsewhere.Load()
	if end == math.MaxInt64 {
		return end
	}
	return end - l.sentEver.Load() + l.sent.Load() // which is pending, too
}

// FullElsewhere reports whether others have no room for changes.
func (l *Ledger) FullElsewhere() bool { return l.FullWith(l.roomElsewhere()) }

// FullWith reports whether there is no room for changes where n bytes are free for the same jobs.
func (l *Ledger) FullWith(n int64) bool {
	s := l.Sums()
	return !s.fitsInto(n)
}

// FullHere reports whether there is no room for changes here, whatever others have.
func (l *Ledger) FullHere() bool {
	s := l.Sums()
	p, _ := s.Pressure(l.Full())
	return p == Full
}

// anotherWanted is Sums.AnotherWanted of this moment.
func (l *Ledger) AnotherWanted() bool { s := l.Sums(); return s.anotherWanted() }

// Append notes that n bytes more wait in a Log.
func (l *Ledger) Append(n int64) { l.pending.Add(n) }

// Take notes that a commit has what a Log had: n bytes that Append was told of, which stay
// pending, and how the Log's sums have changed. The goroutine that makes a commit calls it; no
// other writes largest.
func (l *Ledger) Take(n int64, g Growth) {
	l.taken += n
	l.live.Add(g.Live)
	l.jobs.Add(g.Jobs)
	l.pauses.Add(g.Pauses)
	if g.Largest > l.largest.Load() {
		l.largest.Store(g.Largest)
	}
}

// Write notes that n bytes of a segment were written, of what was taken. They leave free
// before they leave pending. The goroutine that makes a commit calls it.
func (l *Ledger) Write(n int64) {
	l.free.Add(-n)
	l.settle(min(l.taken, n))
}

// Written notes that all is written that was taken. The goroutine that makes a commit calls it.
func (l *Ledger) Written() { l.settle(l.taken) }

// Send notes that n bytes, of what was taken, are proposed to the other servers. They stay pending
// until Land. The goroutine that makes a commit calls Send, and Written once a commit is sent.
func (l *Ledger) Send(n int64) {
	known := min(l.taken, n)
	l.taken -= known
	l.sent.Add(n)
	l.sentEver.Add(n)
	l.pending.Add(n - known)
}

// Land notes that n bytes of a segment were written, of what was sent. They leave free before
// they leave pending. One goroutine calls it.
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

// take takes n bytes off a counter to which they were added before. It panics if the counter
// has fewer.
func take(what string, counter *atomic.Int64, n int64) {
	if left := counter.Add(-n); left < 0 {
		panic(fmt.Sprintf("%d bytes are %s once %d are taken off", left, what, n))
	}
}

// AddFree notes that n bytes more can be written: a segment was prepared. With n below
// zero it was given back, or its end stays empty.
func (l *Ledger) AddFree(n int64) { l.free.Add(n) }

// SetSegments notes how many bytes all segments have, and the closed ones of them.
func (l *Ledger) SetSegments(size, closed int64) {
	l.size.Store(size)
	l.closed.Store(closed)
}

// Try numbers a try to prepare a segment, which now begins. The keeper calls it.
func (l *Ledger) Try() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	return l.tries
}

// Refuse notes that a try found no space.
func (l *Ledger) Refuse(try uint64) {
	l.mu.Lock()
	l.refused = try
	l.mu.Unlock()
	l.full.Store(true)
}

// Asked reports whether Fits waits to hear what the disk has; Measured tells it.
func (l *Ledger) Asked() bool { return l.asked.Swap(false) }

// Measured notes that the disk has n bytes besides the segments.
func (l *Ledger) Measured(n int64) {
	l.mu.Lock()
	l.disk = n
	l.measured++
	l.mu.Unlock()
}

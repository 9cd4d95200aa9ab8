package session

import (
	"fmt"
	"iter"
	"slices"

	"polystalk/shard/core"
)

// notes are what is noted of a session for operators, at a store or two a command.
type notes struct {
	number  uint64    // unlike that of any other session of the process; never zero
	since   core.Time // when it was opened
	last    uint64    // its last command: the kind in kindBits, and above them when it came; zero: none
	in, out uint64    // bytes that it has brought, and that it was said
}

// What is in notes.last. Its time is in units of 2^20 ns, which is a millisecond and a bit.
const (
	kindBits = 16
	lastUnit = 20
)

// Count counts a command of the session, and notes that it was the last: its index among its
// Front's kinds behind what Host.Base gives.
func (s *Session) Count(kind int) {
	l := s.loop
	l.counts.commands[kind].Add(1)
	s.notes.last = uint64(l.batch.Now)>>lastUnit<<kindBits | uint64(kind+1)
}

// lastCommand is the kind of the session's last command, and when it came; -1: there was none.
func (n *notes) lastCommand() (kind int, at core.Time) {
	return int(n.last&(1<<kindBits-1)) - 1, core.Time(n.last >> kindBits << lastUnit)
}

// Number is the session's number: it tells it from all others that the process ever has.
func (s *Session) Number() uint64 { return s.notes.number }

// numberFor is a number for a new session on a loop: the next one above all others which
// tells that loop; see LoopOf. So they are in the order in which connections come.
func (h *Host) numberFor(loop int) uint64 {
	loops := uint64(len(h.Loops()))
	for {
		last := h.numbers.Load()
		next := last + 1 + (uint64(loop)+loops-(last+1)%loops)%loops
		if h.numbers.CompareAndSwap(last, next) {
			return next
		}
	}
}

// LoopOf is the loop that has the session of a number, if anyone has; nil: there is no loop.
// It can be told only if all loops were there before the first connection.
func (h *Host) LoopOf(number uint64) *Loop {
	loops := h.Loops()
	if len(loops) == 0 {
		return nil
	}
	return loops[number%uint64(len(loops))]
}

// frontsMax is how many protocols a Host may have.
const frontsMax = 8

// indexOf is the place of a front in Host.fronts, where it is put if it is not there.
func (h *Host) indexOf(f Front) uint8 {
	if i := slices.Index(*h.fronts.Load(), f); i >= 0 {
		return uint8(i)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := *h.fronts.Load()
	i := slices.Index(all, f)
	if i < 0 {
		i = len(all)
		if i == frontsMax {
			panic(fmt.Sprintf("session: %q is one protocol more than %d", f.Name(), frontsMax))
		}
		all = append(slices.Clone(all), f)
		h.fronts.Store(&all)
	}
	return uint8(i)
}

// enroll begins the notes of a new session, and counts it.
func (l *Loop) enroll(s *Session, f Front) {
	s.front = l.host.indexOf(f)
	c := &l.counts.fronts[s.front]
	c.open.Add(1)
	c.accepted.Add(1)
	s.notes = notes{number: l.host.numberFor(l.Index), since: l.batch.Now}
	l.roll.add(s)
}

// Sessions gives the loop's sessions with numbers above that one, in the order of their
// numbers, to who has the loop and sees to it that none comes or goes meanwhile.
func (l *Loop) Sessions(above uint64) iter.Seq[*Session] { return l.roll.after(above) }

// Session is the loop's session of that number, nil if it has gone; for who has the loop.
func (l *Loop) Session(number uint64) *Session { return l.roll.find(number) }

// WhenGone has f called, by who has the loop, when the session is gone: no shard knows it any
// more, and what it held is others'. It is for who has the loop.
func (s *Session) WhenGone(f func()) {
	if s.life == gone {
		f()
		return
	}
	l := s.loop
	if l.roll.ends == nil {
		l.roll.ends = make(map[*Session][]func())
	}
	l.roll.ends[s] = append(l.roll.ends[s], f)
}

// toldOfEnd tells those who have asked for the session's end.
func (l *Loop) toldOfEnd(s *Session) {
	if len(l.roll.ends) == 0 {
		return
	}
	for _, f := range l.roll.ends[s] {
		f()
	}
	delete(l.roll.ends, s)
}

// Kill ends the session as if its connection had broken: it is closed at once, and what it
// holds goes back, as that of a lost worker does. One that closes already goes on to. It is
// for a turn of the session.
func (s *Session) Kill() {
	if s.life < closing {
		s.Abort()
	}
}

// A Rejection is why a client was not served.
type Rejection int

// The reasons.
const (
	RejectedLimit   Rejection = iota // as many as may be served were connected
	RejectedLost                     // the system did not let it be taken up
	RejectedForeign                  // it spoke HTTP or TLS, which nobody here does
	NumRejections
)

// String is the reason's name in figures.
func (r Rejection) String() string { return [...]string{"limit", "lost", "foreign"}[r] }

// CountRejection counts a client that was not served; from any goroutine.
func (h *Host) CountRejection(r Rejection) { h.rejected[r].Add(1) }

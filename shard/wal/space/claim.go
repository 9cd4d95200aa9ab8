package space

// Pressure says whether changes that need space are taken.
type Pressure int32

// The values of Pressure.
const (
	Open Pressure = iota // yes
	Wait                 // not now: the disk is behind
	Full                 // no: there is no space left
)

// A Claim reserves room for what is not in a Log yet: the part of a body that has arrived, with
// a step ahead. No other claim gets that room, so what a client only announces is not claimed.
// The zero value claims nothing.
//
// A Claim belongs to one caller, which raises it with Ledger.Claim and ends it with
// Ledger.Release. Callers read Bytes alone; the fields belong to the Ledger.
//
// No two claims can wait for each other. The next try to make room answers a claim that waits:
// the claim gets what it asked for, or is refused and loses what it had, which the next claim
// can have.
type Claim struct {
	Body    int64  // bytes that may be recorded, without heads and padding
	Granted int64  // bytes promised for them, with heads and padding
	Wanted  int64  // bytes that it waits for besides
	Asked   uint64 // tries or measurings before the question was put
	Fitting bool   // Fits put the question
}

// Bytes returns how many bytes may be recorded.
func (c *Claim) Bytes() int64 { return c.Body }

// A Growth tells how the sums of a Log have changed. Largest and HighID are no differences, but
// the highest values so far.
type Growth struct {
	Live    int64  // bytes of a Copy of each live job
	Jobs    int64  // live jobs
	Pauses  int64  // bytes of the records that will end the pauses
	Records uint64 // records appended
	Largest int64  // bytes of the largest record of a job
	HighID  uint64 // highest id of a job
}

// Fits implements commit.Storage.Fits. It says yes by what the disk had not long ago, and Full
// only by what the disk has when it is asked anew. ask reports whether the caller must ask the
// disk; Measured takes the answer.
func (l *Ledger) Fits(c *Claim, n int64) (p Pressure, ask bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.Sums()
	switch {
	case s.Footprint(n) <= s.capacity(l.disk):
		c.Fitting = false
		return Open, false
	case !c.Fitting:
		c.Fitting, c.Asked = true, l.measured
		l.asked.Store(true)
		return Wait, true
	case l.measured > c.Asked:
		c.Fitting = false
		return Full, false
	}
	return Wait, false
}

// Claim implements commit.Storage.Claim. taken says whether changes in one piece are taken: a
// claim does not overtake them. changed reports that the keeper has something to do: the claim has
// begun or ceased to wait, or a segment is wanted now that was not before.
//
// A claim is never refused for what was known before it asked: only a try to prepare a segment
// that began later, and found no space, refuses it. Until then its bytes are wanted, and the keeper
// makes segments for them whatever the bound is.
func (l *Ledger) Claim(c *Claim, n int64, taken bool) (p Pressure, changed bool) {
	if n <= c.Body {
		return Open, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.Sums()
	need := s.Footprint(n) - c.Granted
	room := s.Available()-need >= s.margin()
	switch {
	case room && taken:
		l.promised.Add(need)
		take("wanted", &l.wanted, c.Wanted)
		changed = s.wantsMore(need, -c.Wanted)
		*c = Claim{Body: n, Granted: c.Granted + need}
		return Open, changed
	case c.Wanted == 0:
		c.Asked = l.tries
		changed = true
	case !room && l.refused > c.Asked:
		l.Release(c)
		return Full, true
	}
	l.wanted.Add(need - c.Wanted)
	changed = s.wantsMore(0, need-c.Wanted) || changed
	c.Wanted = need
	return Wait, changed
}

// wantsMore reports whether another segment is wanted once so much more is promised and
// wanted, and is not before.
func (s *Sums) wantsMore(promised, wanted int64) bool {
	then := *s
	then.Promised += promised
	then.Wanted += wanted
	return then.anotherWanted() && !s.anotherWanted()
}

// Release gives back what c has and waits for.
func (l *Ledger) Release(c *Claim) {
	take("wanted", &l.wanted, c.Wanted)
	take("promised", &l.promised, c.Granted)
	*c = Claim{}
}

// Promise takes n bytes of what is available, all of them or none: for a compaction, which
// leaves no margin, since it makes room.
func (l *Ledger) Promise(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.Sums(); n > 0 && s.Available() < n {
		return false
	}
	l.promised.Add(n)
	return true
}

// GiveBack ends a Promise, or a part of it.
func (l *Ledger) GiveBack(n int64) { take("promised", &l.promised, n) }

package space

// Pressure says whether changes that need space are accepted.
type Pressure int32

// The values of Pressure.
const (
	Open Pressure = iota // yes
	Wait                 // not now: the disk is behind
	Full                 // no: there is no space left
)

// A Claim reserves room for the received part of a body that is not in a Log yet, and for the
// next step. No other claim can use that room, so bytes that a client only announces are not
// claimed. The zero value claims nothing.
//
// A Claim belongs to one caller, which raises it with Ledger.Claim and ends it with
// Ledger.Release. Callers read only Bytes; the fields belong to the Ledger.
//
// Claims cannot deadlock. The next attempt to make room decides a waiting claim: either it gets
// the bytes that it asked for, or it is refused and releases what it had.
type Claim struct {
	Body    int64  // bytes that may be recorded, without heads and padding
	Granted int64  // bytes promised for them, with heads and padding
	Wanted  int64  // further bytes that it waits for
	Asked   uint64 // number of tries, or of measurements, when it began to wait
	Fitting bool   // Fits has begun to wait
}

// Bytes returns how many bytes may be recorded.
func (c *Claim) Bytes() int64 { return c.Body }

// A Growth is the change of a Log's sums. Largest and HighID are not differences, but the highest
// values so far.
type Growth struct {
	Live    int64  // bytes of a Copy of each live job
	Jobs    int64  // live jobs
	Pauses  int64  // bytes of the records that will end the pauses
	Records uint64 // records appended
	Largest int64  // bytes of the largest record of a job
	HighID  uint64 // highest id of a job
}

// Fits implements commit.Storage.Fits. It answers Open from the last measurement of the disk, and
// Full only from a new one. ask reports whether the caller must measure the disk; Measured takes
// the result.
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

// Claim implements commit.Storage.Claim. taken says whether changes in one piece are accepted: a
// claim does not overtake them. changed reports that the keeper must be woken: the claim has
// begun or stopped to wait, or another segment is wanted now.
//
// Only an attempt to prepare a segment that began after the claim asked, and found no space, can
// refuse it. Until then its bytes are wanted, and the keeper makes segments for them even beyond
// the bound.
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

// wantsMore reports whether further promised and wanted bytes make another segment wanted that is
// not wanted now.
func (s *Sums) wantsMore(promised, wanted int64) bool {
	then := *s
	then.Promised += promised
	then.Wanted += wanted
	return then.anotherWanted() && !s.anotherWanted()
}

// Release gives back the bytes of c, and ends its wait.
func (l *Ledger) Release(c *Claim) {
	take("wanted", &l.wanted, c.Wanted)
	take("promised", &l.promised, c.Granted)
	*c = Claim{}
}

// Promise promises n bytes to a compaction if they are available. It leaves no margin, since a
// compaction makes room.
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

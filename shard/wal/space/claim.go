package space

import "polystalk/shard/commit"

// Fits is commit.Storage's. It answers by what the disk said not long ago if that is yes,
// and by what it says when asked now if it is Full. It reports whether the disk is to be
// asked: by who then calls Measured and notifies.
func (l *Ledger) Fits(c *commit.Claim, n int64) (p commit.Pressure, ask bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.Sums()
	switch {
	case s.Footprint(n) <= s.Capacity(l.disk):
		c.Fitting = false
		return commit.Open, false
	case !c.Fitting:
		c.Fitting, c.Asked = true, l.measured
		l.asked.Store(true)
		return commit.Wait, true
	case l.measured > c.Asked:
		c.Fitting = false
		return commit.Full, false
	}
	return commit.Wait, false
}

// Claim is commit.Storage's; taken says whether changes in one piece are, which claims do
// not overtake. It reports whether there is something for the keeper to do: the claim has
// begun to wait for a segment, or has given one up; or a segment is wanted now that was not
// before, since a claim that waits asks for more, or another one took what there was.
//
// The rule is that nobody is refused for what was known before he asked. His claim notes
// how many segments had been tried by then; only if a try that began later has found no
// space is there none. Until then what he asks for is wanted, for which the keeper
// makes segments whatever the bound is.
func (l *Ledger) Claim(c *commit.Claim, n int64, taken bool) (p commit.Pressure, changed bool) {
	if n <= c.Body {
		return commit.Open, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.Sums()
	need := s.Footprint(n) - c.Granted
	room := s.Available()-need >= s.Margin()
	switch {
	case room && taken:
		l.promised.Add(need)
		take("wanted", &l.wanted, c.Wanted)
		changed = s.wantsMore(need, -c.Wanted)
		*c = commit.Claim{Body: n, Granted: c.Granted + need}
		return commit.Open, changed
	case c.Wanted == 0:
		c.Asked = l.tries
		changed = true
	case !room && l.refused > c.Asked:
		l.Release(c)
		return commit.Full, true
	}
	l.wanted.Add(need - c.Wanted)
	changed = s.wantsMore(0, need-c.Wanted) || changed
	c.Wanted = need
	return commit.Wait, changed
}

// wantsMore reports whether another segment is wanted once so much more is promised and
// wanted, and is not before.
func (s *Sums) wantsMore(promised, wanted int64) bool {
	then := *s
	then.Promised += promised
	then.Wanted += wanted
	return then.AnotherWanted() && !s.AnotherWanted()
}

// Release gives back what c has and waits for.
func (l *Ledger) Release(c *commit.Claim) {
	take("wanted", &l.wanted, c.Wanted)
	take("promised", &l.promised, c.Granted)
	*c = commit.Claim{}
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

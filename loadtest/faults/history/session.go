package history

import (
	"slices"
	"time"
)

// A Session is one connection to a server, from its beginning to its end. It is used
// by one goroutine.
type Session struct {
	h     *History
	alive int64   // when the last command was sent that was answered
	held  []Token // jobs that it reserved and has not let go
}

// Connect begins a connection.
func (h *History) Connect() *Session { return &Session{h: h} }

// Answered tells that a command was answered, whatever it was: the connection was
// there when the server ran it.
func (s *Session) Answered(invoked int64) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.alive = max(s.alive, invoked)
}

// Broken tells that the connection has ended. What was sent and not answered has been
// told by Doubt.
func (s *Session) Broken() {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range s.held {
		s.end(t, s.alive)
	}
	s.held = nil
}

// Reserved tells that a job was handed out. ok: it is one that somebody put.
func (s *Session) Reserved(id uint64, body []byte, c Call) (t Token, ok bool) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.Reserved++
	s.alive = max(s.alive, c.Invoked)
	t, j, ok := h.body(id, body, c)
	if !ok {
		return 0, false
	}
	h.named(t, j, id, c)
	h.mayBe(t, j, id, c)
	j.reserved = max(j.reserved, c.Invoked)
	h.handedOut(t, j, s, id, c)
	return t, true
}

// mayBe judges that a job is there at all.
func (h *History) mayBe(t Token, j *job, id uint64, c Call) {
	if h.rest {
		j.is |= isSeen
	}
	switch {
	case j.is&isRefused != 0:
		h.found(Unwanted, t, id, c, "the put was refused")
	case j.gone == 0 || c.Invoked <= j.gone:
	case h.rest:
		h.found(Back, t, id, c, "it was deleted")
	default:
		h.found(Late, t, id, c, "it was reserved %v after DELETED", time.Duration(c.Invoked-j.gone))
	}
}

// handedOut judges that s may have the job now.
func (h *History) handedOut(t Token, j *job, s *Session, id uint64, c Call) {
	l := h.life(t)
	kicked := func(since int64) bool { return l.kicks.since(since) || h.tubes[j.tube].kicks.since(since) }
	if b := l.buried; b.Answered != 0 && c.Invoked > b.Answered && !kicked(b.Invoked) {
		h.found(Unburied, t, id, c, "it was buried at %v, and not kicked", b)
	}
	if l.due != 0 && c.Answered < l.due-int64(h.o.Slack) && !kicked(l.delayed.Invoked) {
		h.found(Early, t, id, c, "it was delayed for %v more", time.Duration(l.due-c.Answered))
	}
	l.certain(c)
	l.refute(s, c, "RESERVED to another")
	n := hold{by: s, invoked: c.Invoked, since: c.Answered, until: never}
	if j.is&isForeign == 0 {
		n.until = c.Invoked + int64(j.ttr)*int64(time.Second) - int64(h.o.Slack)
	}
	for _, o := range l.holds {
		if o.by != s && n.since < o.invoked && (n.refuted == 0 || o.since < n.refuted) {
			n.refuted, n.refuter = o.since, "RESERVED to another"
		}
	}
	if h.holds(t, s) { // the same connection has it again: its TTR was over
		s.drop(t, c.Invoked)
	}
	l.holds = append(l.holds, n)
	s.held = append(s.held, t)
}

// holds reports whether s holds t.
func (h *History) holds(t Token, s *Session) bool {
	l := h.lives[t]
	return l != nil && slices.ContainsFunc(l.holds, func(o hold) bool { return o.by == s })
}

// end ends what is certain of s's reservation of t.
func (s *Session) end(t Token, at int64) {
	h := s.h
	l := h.lives[t]
	if l == nil {
		return
	}
	for i := range l.holds {
		o := l.holds[i]
		if o.by != s {
			continue
		}
		if certain := min(at, o.until); o.refuted != 0 && o.refuted < certain {
			h.found(Overlap, t, h.jobs.at(t).id, Call{o.since, certain}, "it was held for certain, and at %d came %s", o.refuted, o.refuter)
		}
		l.holds = slices.Delete(l.holds, i, i+1)
		break
	}
	h.forget(t, l)
}

// forget drops what is known of a job that is deleted, once nothing can come of it.
func (h *History) forget(t Token, l *life) {
	if h.jobs.at(t).gone != 0 && len(l.holds) == 0 {
		delete(h.lives, t)
	}
}

// letGo ends the reservation by a command of the holder's that was answered.
func (s *Session) letGo(t Token, c Call) {
	s.alive = max(s.alive, c.Invoked)
	s.drop(t, c.Invoked)
}

// drop ends the reservation, which was certain until then.
func (s *Session) drop(t Token, until int64) {
	if i := slices.Index(s.held, t); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
	}
	s.end(t, until)
}

// Deleted tells that a delete was acknowledged.
func (s *Session) Deleted(t Token, c Call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.Deleted++
	j := h.jobs.at(t)
	if j.gone != 0 && c.Invoked > j.gone {
		h.found(Late, t, j.id, c, "it was deleted again")
	}
	if j.reserved > c.Answered {
		h.found(Late, t, j.id, c, "it was reserved %v after DELETED", time.Duration(j.reserved-c.Answered))
	}
	if l := h.lives[t]; l != nil {
		l.refute(s, c, "DELETED to another")
	}
	if j.counts() {
		h.live.add(h, j, -1)
	}
	if j.gone == 0 {
		j.gone = c.Answered
	}
	s.letGo(t, c)
	if l := h.lives[t]; l != nil {
		h.forget(t, l)
	}
}

// Released tells that a release was acknowledged.
func (s *Session) Released(t Token, pri uint32, delay time.Duration, c Call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.Released++
	l, sure := s.changed(t, pri, c, "RELEASED to another")
	if sure && delay > 0 {
		l.delayed, l.due = c, c.Invoked+int64(delay)
	}
}

// Buried tells that a bury was acknowledged.
func (s *Session) Buried(t Token, pri uint32, c Call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.Buried++
	if l, sure := s.changed(t, pri, c, "BURIED to another"); sure {
		l.buried = c
	}
}

// changed is what Released and Buried have in common; sure: it is what the job is now.
func (s *Session) changed(t Token, pri uint32, c Call, said string) (l *life, sure bool) {
	h := s.h
	l = h.life(t)
	l.refute(s, c, said)
	s.letGo(t, c)
	l = h.life(t)
	j := h.jobs.at(t)
	if sure = l.certain(c); sure {
		j.pri, l.otherPris = pri, l.otherPris[:0]
	} else {
		l.otherPris = append(l.otherPris, pri)
	}
	return l, sure && j.gone == 0
}

// Touched tells that a touch was acknowledged.
func (s *Session) Touched(t Token, c Call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	s.alive = max(s.alive, c.Invoked)
	l := h.lives[t]
	if l == nil {
		return
	}
	l.refute(s, c, "TOUCHED to another")
	for i := range l.holds {
		if o := &l.holds[i]; o.by == s && o.until != never {
			o.until = c.Invoked + int64(h.jobs.at(t).ttr)*int64(time.Second) - int64(h.o.Slack)
		}
	}
}

// NotFound tells that a command on a job that s had reserved was answered so.
func (s *Session) NotFound(t Token, c Call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lives[t]; l != nil {
		for _, o := range l.holds {
			if o.by == s && c.Answered < o.until {
				h.found(Disowned, t, h.jobs.at(t).id, c, "NOT_FOUND, and it was reserved at %d on the same connection", o.since)
			}
		}
	}
	s.letGo(t, c)
}

// DeleteInDoubt tells of a delete that was sent and not answered, or that never is.
func (s *Session) DeleteInDoubt(t Token, invoked int64) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.DeleteInDoubt++
	j := h.jobs.at(t)
	if j.counts() {
		h.live.add(h, j, -1)
	}
	j.is |= isDoubtful
	s.inDoubt(t, invoked)
}

// ChangeInDoubt tells of a release or a bury that was sent and not answered.
func (s *Session) ChangeInDoubt(t Token, pri uint32, invoked int64) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.ChangeInDoubt++
	s.inDoubt(t, invoked)
	l := h.life(t)
	l.otherPris = append(l.otherPris, pri)
}

// inDoubt: the job is held, or it is not; it is buried, or delayed, or ready. The
// connection may have been gone for the server when the command was sent.
func (s *Session) inDoubt(t Token, invoked int64) {
	s.drop(t, s.alive)
	if l := s.h.lives[t]; l != nil {
		l.buried, l.delayed, l.due = Call{}, Call{}, 0
		l.told = max(l.told, invoked)
	}
}

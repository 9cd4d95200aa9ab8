package main

import (
	"slices"
	"time"
)

// A holder is one connection to a server, as a history sees it. One goroutine uses it.
type holder struct {
	h     *history
	alive int64   // when the last answered command was sent
	held  []token // jobs that it reserved and still holds
}

func (h *history) connect() *holder { return &holder{h: h} }

// answered reports that a command was answered: the connection existed when the server ran it.
func (s *holder) answered(invoked int64) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.alive = max(s.alive, invoked)
}

// broken reports the end of the connection. The caller must first report unanswered commands.
func (s *holder) broken() {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	for _, t := range s.held {
		s.end(t, s.alive)
	}
	s.held = nil
}

// reserved reports that the client got a job. ok reports whether a client put that job.
func (s *holder) reserved(id uint64, body []byte, c call) (t token, ok bool) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.reserved++
	s.alive = max(s.alive, c.invoked)
	t, j, ok := h.recognize(id, body, c)
	if !ok {
		return 0, false
	}
	h.named(t, j, id, c)
	h.exists(t, j, id, c)
	j.reserved = max(j.reserved, c.invoked)
	l := h.life(t)
	if b := l.buried; b.answered != 0 && c.invoked > b.answered && !h.kicked(j, l, b.invoked) {
		h.violated(unburied, t, id, c, "it was buried at %v, and not kicked", b)
	}
	if l.due != 0 && c.answered < l.due-int64(h.slack) && !h.kicked(j, l, l.delayed.invoked) {
		h.violated(early, t, id, c, "it was delayed for %v more", time.Duration(l.due-c.answered))
	}
	l.certain(c)
	if slices.ContainsFunc(l.holds, func(o hold) bool { return o.by == s }) {
		s.drop(t, c.invoked) // the same connection reserved it again, so its TTR was over
		l = h.life(t)
	}
	n := hold{by: s, until: never}
	if j.is&isForeign == 0 {
		n.until = h.expiry(j, c)
	}
	l.observe(acquire, s, c)
	l.holds = append(l.holds, n)
	s.held = append(s.held, t)
	return t, true
}

// expiry returns the time until which a reservation or a touch is certain.
func (h *history) expiry(j *job, c call) int64 {
	return c.invoked + int64(j.ttr)*int64(time.Second) - int64(h.slack)
}

// end ends s's reservation of t, which was certain until the time at or its TTR.
func (s *holder) end(t token, at int64) {
	l := s.h.lives[t]
	if l == nil {
		return
	}
	if i := slices.IndexFunc(l.holds, func(o hold) bool { return o.by == s }); i >= 0 {
		l.observe(expire, s, call{min(at, l.holds[i].until), never})
		l.holds = slices.Delete(l.holds, i, i+1)
	}
	s.h.forget(t, l)
}

// forget drops the life of a deleted job when no reservation is left.
func (h *history) forget(t token, l *life) {
	if h.jobs.at(t).gone != 0 && len(l.holds) == 0 {
		h.checkHolds(t, l)
		delete(h.lives, t)
	}
}

// giveUp ends the reservation by a command of the holder that was answered.
func (s *holder) giveUp(t token, c call) {
	s.alive = max(s.alive, c.invoked)
	s.drop(t, c.invoked)
}

// drop ends the reservation, which was certain until the given time.
func (s *holder) drop(t token, until int64) {
	if i := slices.Index(s.held, t); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
	}
	s.end(t, until)
}

// deleted reports that a delete was acknowledged.
func (s *holder) deleted(t token, c call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.deleted++
	j := h.jobs.at(t)
	if j.gone != 0 && c.invoked > j.gone {
		h.violated(late, t, j.id, c, "it was deleted again")
	}
	if j.reserved > c.answered {
		h.violated(late, t, j.id, c, "it was reserved %v after DELETED", time.Duration(j.reserved-c.answered))
	}
	if l := h.lives[t]; l != nil {
		l.observe(remove, s, c)
	}
	if j.mustBe() {
		h.live--
	}
	if j.gone == 0 {
		j.gone = c.answered
	}
	s.giveUp(t, c)
	if l := h.lives[t]; l != nil {
		h.forget(t, l)
	}
}

// released reports that a release was acknowledged.
func (s *holder) released(t token, pri uint32, delay time.Duration, c call) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.counts.released++
	if l, sure := s.changed(t, pri, c); sure && delay > 0 {
		l.delayed, l.due = c, c.invoked+int64(delay)
	}
}

// buried reports that a bury was acknowledged.
func (s *holder) buried(t token, pri uint32, c call) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.counts.buried++
	if l, sure := s.changed(t, pri, c); sure {
		l.buried = c
	}
}

// changed records a release or a bury. sure reports whether it decides the job's present state.
func (s *holder) changed(t token, pri uint32, c call) (l *life, sure bool) {
	h := s.h
	h.life(t).observe(release, s, c)
	s.giveUp(t, c)
	l = h.life(t)
	j := h.jobs.at(t)
	if sure = l.certain(c); sure {
		j.pri, l.otherPris = pri, l.otherPris[:0]
	} else {
		l.otherPris = append(l.otherPris, pri)
	}
	return l, sure && j.gone == 0
}

// touched reports that a touch was acknowledged.
func (s *holder) touched(t token, c call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	s.alive = max(s.alive, c.invoked)
	l := h.lives[t]
	if l == nil {
		return
	}
	l.observe(touch, s, c)
	for i := range l.holds {
		if o := &l.holds[i]; o.by == s && o.until != never {
			o.until = h.expiry(h.jobs.at(t), c)
		}
	}
}

// notFound reports NOT_FOUND as the answer to a command about a job that s had reserved.
func (s *holder) notFound(t token, c call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lives[t]; l != nil {
		for _, o := range l.holds {
			if o.by == s && c.answered < o.until {
				h.violated(disowned, t, h.jobs.at(t).id, c, "NOT_FOUND, and it was reserved on the same connection")
			}
		}
	}
	s.giveUp(t, c)
}

// deleteInDoubt reports a delete that has no answer, or never gets one.
func (s *holder) deleteInDoubt(t token, invoked int64) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.deletesInDoubt++
	j := h.jobs.at(t)
	if j.mustBe() {
		h.live--
	}
	j.is |= isDoubtful
	s.inDoubt(t, invoked)
}

// changeInDoubt reports a release or a bury that has no answer.
func (s *holder) changeInDoubt(t token, pri uint32, invoked int64) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.otherChangesInDoubt++
	s.inDoubt(t, invoked)
	l := h.life(t)
	l.otherPris = append(l.otherPris, pri)
}

// inDoubt records that the job may be held, buried, delayed or ready. The server may have seen the
// connection end before the command was sent.
func (s *holder) inDoubt(t token, invoked int64) {
	s.drop(t, s.alive)
	if l := s.h.lives[t]; l != nil {
		l.buried, l.delayed, l.due = call{}, call{}, 0
		l.told = max(l.told, invoked)
	}
}

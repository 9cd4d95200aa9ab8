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
	for len(s.held) > 0 {
		s.drop(s.held[0], s.alive)
	}
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
	if slices.Contains(s.held, t) {
		s.drop(t, c.invoked) // the same connection reserved it again, so its TTR was over
	}
	n := hold{by: s, until: never}
	if j.is&isForeign == 0 {
		n.until = h.expiry(j, c)
	}
	l := h.life(t, c.invoked)
	l.observe(op{kind: opReserve, by: s, due: c.answered + int64(h.slack), kicked: h.kicks[j.tube].since(l.begun)}, c)
	l.holds = append(l.holds, n)
	s.held = append(s.held, t)
	return t, true
}

// expiry returns the time until which a reservation or a touch is certain.
func (h *history) expiry(j *job, c call) int64 {
	return c.invoked + int64(j.ttr)*int64(time.Second) - int64(h.slack)
}

// drop ends the reservation of t, which was certain until the time at or its TTR.
func (s *holder) drop(t token, at int64) {
	s.held = slices.DeleteFunc(s.held, func(o token) bool { return o == t })
	l := s.h.lives[t]
	if l == nil {
		return
	}
	if i := slices.IndexFunc(l.holds, func(o hold) bool { return o.by == s }); i >= 0 {
		l.observe(op{kind: opEnd, by: s}, call{min(at, l.holds[i].until), never})
		l.holds = slices.Delete(l.holds, i, i+1)
	}
	s.h.forget(t, l)
}

// forget drops the life of a deleted job when no reservation is left.
func (h *history) forget(t token, l *life) {
	if h.jobs[t].gone != 0 && len(l.holds) == 0 {
		h.judge(t, l)
		delete(h.lives, t)
	}
}

// told reports the answer to a command about a job that the client had reserved. The caller must
// report answered first.
func (s *holder) told(t token, o op, c call) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	j, l := &h.jobs[t], h.life(t, c.invoked)
	o.by = s
	l.observe(o, c)
	switch o.kind {
	case opTouch:
		for i := range l.holds {
			if n := &l.holds[i]; n.by == s && n.until != never {
				n.until = h.expiry(j, c)
			}
		}
		return
	case opRelease:
		h.counts.released++
	case opBury:
		h.counts.buried++
	case opNotFound:
		s.drop(t, c.answered+1) // the connection existed until then
		return
	case opDelete:
		h.counts.deleted++
		if j.gone != 0 && c.invoked > j.gone {
			h.violated(late, t, j.id, c, "it was deleted again")
		}
		if j.reserved > c.answered {
			h.violated(late, t, j.id, c, "it was reserved %v after DELETED", time.Duration(j.reserved-c.answered))
		}
		if j.mustBe() {
			h.counts.live--
		}
		if j.gone == 0 {
			j.gone = c.answered
		}
	}
	s.drop(t, c.invoked)
}

// doubted reports a delete, a release or a bury that has no answer, or never gets one: the job may
// be reserved, buried, delayed, ready or deleted. The server may have seen the connection end before
// the command was sent.
func (s *holder) doubted(t token, o op, invoked int64) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.kind == opDelete {
		h.counts.deletesInDoubt++
		if j := &h.jobs[t]; j.mustBe() {
			h.counts.live--
		}
		h.jobs[t].is |= isDoubtful
	} else {
		h.counts.otherChangesInDoubt++
		o.by, o.doubt = s, true
		h.life(t, invoked).observe(o, call{invoked, never})
	}
	s.drop(t, s.alive)
}

package session

import (
	"time"

	"polystalk/router/access"
)

// throttleMin is the shortest time for which a put waits: a timer for each put of a high rate would
// cost more than the put.
const throttleMin = 10 * time.Millisecond

// pay takes a put from the rate of the client's identity, once for each put. Wait: pay has stopped
// the session. Refuse: the put would wait for too long, or the client sends no more and may be gone.
func (s *Session) pay() verdict {
	most := access.WaitMax
	if s.end > open {
		most = 0
	}
	wait := s.access.Pay(1, int64(s.loop.awake()), most)
	if wait > most {
		s.loop.host.Complain("refused a put: its identity has used its puts-per-second", "conn", s, "identity", s.access.Name(), "for", wait)
		return Refuse
	}
	if s.body.paid = true; wait == 0 {
		return Run
	}
	wait = max(wait, throttleMin)
	s.access.Waits(wait)
	s.stops |= Throttled
	r := &s.loop.registry
	if r.timers == nil {
		r.timers = make(map[*Session]func() bool)
	}
	r.timers[s] = s.loop.host.After(wait, func() { s.loop.Signal(s, (*Session).unthrottle) })
	return Wait
}

// unthrottle lets a put run that waits for its rate.
func (s *Session) unthrottle() {
	if s.life < closing && s.stops&Throttled != 0 {
		s.stopTimer()
		s.lift(Throttled)
	}
}

// stopTimer stops the timer of a Throttled session.
func (s *Session) stopTimer() {
	timers := s.loop.registry.timers
	timers[s]()
	delete(timers, s)
}

// refund gives back a put that was paid and does not run.
func (s *Session) refund() {
	if s.body.paid {
		s.body.paid = false
		s.access.Refund(1)
	}
}

// Exceeds reports whether a job of size bytes in a tube exceeds a limit of jobs or bytes.
func (s *Session) Exceeds(tube []byte, size int) bool {
	h := s.loop.host
	if s.access == nil || !h.Access.Exceeds(s.access, tube, 1, size, h.Map.Used) {
		return false
	}
	h.Complain("refused a job: the tubes of its identity are full", "conn", s, "identity", s.access.Name(), "tube", string(tube[:min(len(tube), externalMax)]))
	return true
}

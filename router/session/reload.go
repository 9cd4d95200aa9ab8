package session

import (
	"sync/atomic"

	"polystalk/router/access"
)

// Reauthorize checks every session after a reload of the access file, or of the authorities and
// lists of revoked certificates. It kills a session that uses a lost right, has no identity any more,
// or has a certificate that is no longer accepted. The reserved jobs of a killed session become ready
// again. At the end Reauthorize calls done, in a loop or at once, with the number of killed sessions.
// Any goroutine may call it.
func (h *Host) Reauthorize(done func(killed int)) {
	loops := h.Loops()
	c := &check{done: done}
	c.loops.Store(int64(len(loops)))
	if len(loops) == 0 {
		done(0)
	}
	for _, l := range loops {
		l.Do(func() { c.part(l, 0) })
	}
}

// A check is a Reauthorize in progress.
type check struct {
	done   func(killed int)
	loops  atomic.Int64 // that are not done
	killed atomic.Int64
}

// checkMost is how many sessions are checked in one turn of a loop, which takes about 50 µs.
const checkMost = 256

// part checks the next sessions of a loop. Signals are answered in their order: when the last part
// ends, the sessions of all parts were killed.
func (c *check) part(l *Loop, above uint64) {
	n := 0
	for s := range l.Sessions(above) {
		l.Spend(1)
		if !s.reauthorize() {
			c.killed.Add(1)
			l.Signal(s, (*Session).Kill)
		}
		if n++; n == checkMost {
			above = s.Number()
			l.Do(func() { c.part(l, above) })
			return
		}
	}
	l.Do(func() {
		if c.loops.Add(-1) == 0 {
			c.done(int(c.killed.Load()))
		}
	})
}

// isRevoked reports whether the certificate of the client was revoked since it has connected.
func isRevoked(c any) bool {
	r, ok := c.(interface{ Revoked() bool })
	return ok && r.Revoked()
}

// reauthorize reports whether the session may stay.
func (s *Session) reauthorize() bool {
	if s.stops&Throttled != 0 { // the file may have a higher rate
		s.loop.Signal(s, (*Session).unthrottle)
	}
	switch {
	case s.life >= closing:
		return true
	case isRevoked(s.conn):
		return false
	case s.loop.host.Access == nil:
		return true
	case s.unproven || s.activity.last == 0 && s.access.By() != access.ByToken: // it has had no command yet
		was := s.unproven
		if !s.identify() {
			return false
		}
		if !was {
			s.loop.expect(s)
		}
	case s.access.Identity() == nil:
		return false
	}
	p, ok := s.proto.(reauthorizer)
	return !ok || p.Reauthorize()
}

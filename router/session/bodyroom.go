package session

import (
	"slices"
	"sync"

	"polystalk/shard/core"
)

// A bodyRoom lets large bodies in that are to be received: as many at a time as fit into
// a part of what connections may keep, in the order in which they are announced. So
// producers of large bodies wait for one another, rather than that some of them are cut
// off in the middle. A body that is larger than the whole room is let in alone.
type bodyRoom struct {
	mu      sync.Mutex
	most    int64 // bytes
	used    int64
	inside  map[*Session]bodyStay
	waiting []bodyWait // the oldest first
}

// A bodyStay is a body that is being received.
type bodyStay struct {
	size  int64
	until core.Time // when it should be complete
}

type bodyWait struct {
	s    *Session
	size int64
}

// A body should come within BodyGrace and a second for every bodyRate bytes, if others
// wait.
const (
	BodyGrace = 10 * core.Second
	bodyRate  = 1 << 20
)

func newBodyRoom(most int64) *bodyRoom {
	return &bodyRoom{most: most, inside: make(map[*Session]bodyStay)}
}

// setMost changes how many bytes have room, and lets those in who fit now.
func (r *bodyRoom) setMost(most int64, now core.Time) (admitted []*Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = most
	return r.admit(now)
}

// Crowded reports whether the session has to wait before it receives a large body of size
// bytes: it is stopped by NoPlace then, and its command is to be parsed again. From when it
// is asked until FreeBodyRoom or EndBody the body has a place, or waits for one.
func (s *Session) Crowded(size int) bool {
	r := s.loop.host.bodies
	s.body.listed = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.inside[s]; ok {
		return false
	}
	if !slices.ContainsFunc(r.waiting, func(w bodyWait) bool { return w.s == s }) {
		r.waiting = append(r.waiting, bodyWait{s, int64(size)})
	}
	// Whoever was there before would have been let in when room became free.
	switch admitted := r.admit(s.loop.awake()); {
	case len(admitted) == 0:
		s.stops |= NoPlace
		return true
	case len(admitted) > 1 || admitted[0] != s:
		s.impossible("lets others in")
	}
	return false
}

// admit lets those in who are next; r is locked.
func (r *bodyRoom) admit(now core.Time) (admitted []*Session) {
	n := 0
	for _, w := range r.waiting {
		if r.used > 0 && r.used+w.size > r.most {
			break
		}
		r.used += w.size
		r.inside[w.s] = bodyStay{w.size, now + BodyGrace + core.Time(w.size/bodyRate)*core.Second}
		admitted = append(admitted, w.s)
		n++
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
	return admitted
}

// FreeBodyRoom is for when the body was received, or will not be.
func (s *Session) FreeBodyRoom() {
	if !s.body.listed {
		return
	}
	s.body.listed = false
	r := s.loop.host.bodies
	r.mu.Lock()
	if stay, ok := r.inside[s]; ok {
		r.used -= stay.size
		delete(r.inside, s)
	} else {
		r.waiting = slices.DeleteFunc(r.waiting, func(w bodyWait) bool { return w.s == s })
	}
	admitted := r.admit(s.loop.awake())
	r.mu.Unlock()
	for _, a := range admitted {
		a.loop.Signal(a, (*Session).letIn)
	}
}

// letIn goes on with a session that waited for its body's turn.
func (s *Session) letIn() {
	if s.life < closing && s.stops&NoPlace != 0 {
		s.lift(NoPlace)
	}
}

// overdue are those who keep others waiting for longer than they should.
func (r *bodyRoom) overdue(now core.Time) (late []*Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return nil
	}
	for s, stay := range r.inside {
		if stay.until < now {
			late = append(late, s)
		}
	}
	return late
}

// isOverdue reports whether the body that s receives now should be complete.
func (r *bodyRoom) isOverdue(s *Session, now core.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	stay, ok := r.inside[s]
	return ok && stay.until < now
}

// BodyRoom is how many bytes of large bodies have a place, of how many sessions, and how
// many sessions wait for one.
func (h *Host) BodyRoom() (used int64, inside, waiting int) {
	r := h.bodies
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used, len(r.inside), len(r.waiting)
}

// LimitBodies sets how many bytes of large bodies are received at the same time, one body
// excepted. It is to be called before there are sessions.
func (h *Host) LimitBodies(most int64) { h.bodies = newBodyRoom(most) }

// Hurry cuts those off whose large bodies do not come while others wait. The body may come
// before its session hears of that, and another behind it; and who is stopped by NoSpace
// cannot go on, whatever comes.
func (h *Host) Hurry() {
	r := h.bodies
	for _, late := range r.overdue(h.Clock.Awake()) {
		late.loop.Signal(late, func(late *Session) {
			if late.life < closing && late.stops&NoSpace == 0 && r.isOverdue(late, h.Clock.Awake()) {
				h.Complain("closing a connection: its body does not come, and others wait", "conn", late, "received", late.body.got)
				late.Abort()
			}
		})
	}
}

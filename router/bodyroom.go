package router

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
	most int64 // bytes

	mu      sync.Mutex
	used    int64
	inside  map[*session]bodyStay
	waiting []bodyWait // the oldest first
}

// A bodyStay is a body that is being received.
type bodyStay struct {
	size  int64
	until core.Time // when it should be complete
}

type bodyWait struct {
	s    *session
	size int64
}

// A body should come within bodyGrace and a second for every bodyRate bytes, if others
// wait.
const (
	bodyGrace = 10 * core.Second
	bodyRate  = 1 << 20
)

func newBodyRoom(most int64) *bodyRoom {
	return &bodyRoom{most: most, inside: make(map[*session]bodyStay)}
}

// crowded reports whether the session has to wait before it receives a body of size
// bytes: it is blocked then, and its command is parsed again when it is let in.
func (s *session) crowded(size int) bool {
	r := s.loop.srv.bodies
	s.kept.large = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.inside[s]; ok {
		return false
	}
	if !slices.ContainsFunc(r.waiting, func(w bodyWait) bool { return w.s == s }) {
		r.waiting = append(r.waiting, bodyWait{s, int64(size)})
	}
	r.admit(s.loop.batch.Now - s.loop.batch.Slept)
	_, ok := r.inside[s]
	s.blocked = !ok
	return !ok
}

// admit lets those in who are next; r is locked.
func (r *bodyRoom) admit(now core.Time) (admitted []*session) {
	n := 0
	for _, w := range r.waiting {
		if r.used > 0 && r.used+w.size > r.most {
			break
		}
		r.used += w.size
		r.inside[w.s] = bodyStay{w.size, now + bodyGrace + core.Time(w.size/bodyRate)*core.Second}
		admitted = append(admitted, w.s)
		n++
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
	return admitted
}

// leaveBodyRoom is for when the body was received, or will not be.
func (s *session) leaveBodyRoom() {
	s.kept.large = false
	r := s.loop.srv.bodies
	r.mu.Lock()
	if stay, ok := r.inside[s]; ok {
		r.used -= stay.size
		delete(r.inside, s)
	} else {
		r.waiting = slices.DeleteFunc(r.waiting, func(w bodyWait) bool { return w.s == s })
	}
	admitted := r.admit(s.loop.batch.Now - s.loop.batch.Slept)
	r.mu.Unlock()
	for _, a := range admitted {
		a.loop.signal(a, (*session).letIn)
	}
}

// letIn goes on with a session that waited for the bodyRoom.
func (s *session) letIn() {
	if s.phase >= phaseClosing || !s.blocked {
		return
	}
	s.blocked = false
	s.unblocked()
}

// overdue are those who keep others waiting for longer than they should.
func (r *bodyRoom) overdue(now core.Time) (late []*session) {
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

// hurry cuts those off.
func (s *Server) hurry() {
	for _, late := range s.bodies.overdue(s.clock.Awake()) {
		late.loop.signal(late, func(late *session) {
			if late.kept.large && late.phase < phaseClosing && !late.blocked { // else the disk has no room
				s.complain("closing a connection: its body does not come, and others wait", "conn", late, "received", late.got)
				late.abort()
			}
		})
	}
}

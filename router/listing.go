package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// A listing appends some of a reply that is as long as there are tubes, functions or
// watches, and reports whether there is more: then the loop's other connections have
// their turns in between, and a client that does not read has no more for now.
type listing func() (more bool)

const (
	// partNames are written in a part, in about as many units as namesCost.
	partNames = 512
	namesCost = 64
)

// sayList answers with what p brings.
func (s *session) sayList(p listing) {
	s.step, s.list = stepNone, p
	s.sayOn()
}

// sayOn goes on with it.
func (s *session) sayOn() {
	l := s.loop
	for s.list() {
		l.round.budget -= namesCost
		l.flushFull(s)
		if s.stalled || s.backed || l.round.budget <= 0 && !l.more() {
			s.phase = phaseBusy
			s.goOnLater()
			return
		}
	}
	s.list = nil
	if s.gear != nil {
		s.gear.hearNoop()
		s.reprobe = s.gear.early.first != nil
	}
	s.released()
}

// saysOn is the later turn. It reports whether the session goes on.
func (s *session) saysOn() bool {
	switch {
	case s.dying || s.phase >= phaseClosing:
		s.list = nil
	case s.stalled || s.backed:
		return false // drained and unblocked come back to it
	}
	if s.phase == phaseBusy {
		s.phase = phaseIdle
	}
	if s.list != nil {
		s.sayOn()
	}
	return true
}

// listTubes answers list-tubes: with the tubes that there are now.
func (s *session) listTubes() {
	names, foreign := s.loop.srv.places.Tubes().Names()
	out := &s.loop.out
	*out = beanstalk.AppendTubeListHead(*out, names.Len(), names.ShownBytes())
	at := 0
	s.sayList(func() bool {
		for end := min(at+partNames, names.Len()); at < end; at++ {
			name := names.At(at)
			if foreign {
				name = string(gearman.AppendQuoted(nil, []byte(name)))
			}
			*out = beanstalk.AppendTubeListName(*out, name)
		}
		if at < names.Len() {
			return true
		}
		s.say(beanstalk.MsgTubeListEnd)
		return false
	})
}

// listWatched answers list-tubes-watched. Its first parts only add up how long it is.
func (s *session) listWatched() {
	at, bytes, counted := 0, 0, false
	each := func(f func(w *core.Face)) (end bool) {
		for stop := min(at+partNames, len(s.watched)); at < stop; at++ {
			f(s.watched[at])
		}
		return at == len(s.watched)
	}
	s.sayList(func() bool {
		out := &s.loop.out
		if !counted {
			if counted = each(func(w *core.Face) { bytes += len(w.Name()) }); !counted {
				return true
			}
			at = 0
			*out = beanstalk.AppendTubeListHead(*out, len(s.watched), bytes)
		}
		if !each(func(w *core.Face) { *out = beanstalk.AppendTubeListName(*out, w.Name()) }) {
			return true
		}
		s.say(beanstalk.MsgTubeListEnd)
		return false
	})
}

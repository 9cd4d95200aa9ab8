package router

import (
	"hash/maphash"

	"polystalk/codec/beanstalk"
	"polystalk/shard/core"
	"polystalk/shard/listindex"
)

// watchScan is the length of a watch list up to which comparing names beats an
// index.
const watchScan = 8

// join submits a new session's first operation: it uses and watches "default".
func (s *session) join() {
	op := &s.req.Op
	op.Kind, op.Client, op.Waiter = core.OpJoin, 0, &s.waiter
	op.Name, op.Mirror = defaultTube, false
	s.submit(s.loop.srv.places.OfTube(defaultTube), stepJoin)
	s.advance()
	if s.dying && s.phase < phaseBusy {
		s.close()
	}
}

var defaultTube = []byte("default")

func (s *session) joined(r *core.Reply, l *link) {
	s.req.Op.Name, s.req.Op.Waiter = nil, nil
	if r.Status != core.StatusOK {
		s.loop.srv.complain("closing a connection: no memory for its watch list", "conn", s)
		s.dying = true
		return
	}
	s.used = s.loop.srv.places.TubeOf(r.Face)
	s.watched = append(s.watched, r.Face)
	l.watching++
}

// use changes the used tube. The new one is opened before the old one is let
// go, which list-tubes shows.
func (s *session) use() {
	op := &s.req.Op
	name := s.cmd.Name
	sh := s.loop.srv.places.OfTube(name)
	op.Kind, op.Client, op.Name, op.Tube = core.OpUse, 0, name, 0
	if sh == s.used.Shard {
		op.Tube = s.used.ID
	}
	s.submit(sh, stepUse)
}

func (s *session) usedNow(r *core.Reply) {
	op := &s.req.Op
	op.Name = nil
	old := s.used
	s.used = s.loop.srv.places.TubeOf(r.Face)
	if old.Shard == s.target {
		s.loop.out = beanstalk.AppendUsing(s.loop.out, s.used.Name)
		return
	}
	op.Kind, op.Tube = core.OpUnuse, old.ID
	s.submit(old.Shard, stepUnuse)
}

// watchAt is the position of name in the watch list, or -1.
func (s *session) watchAt(name []byte) int {
	if s.byName.Len() == 0 {
		for i, w := range s.watched {
			if w.Name() == string(name) {
				return i
			}
		}
		return -1
	}
	i := s.byName.First(maphash.Bytes(watchSeed, name))
	for i >= 0 && s.watched[i].Name() != string(name) {
		i = s.byName.Next(i)
	}
	return i
}

// watchSeed keeps clients from finding names that collide.
var watchSeed = maphash.MakeSeed()

// watchHash is the hash of the entry at a position.
func (s *session) watchHash(at int) uint64 { return maphash.String(watchSeed, s.watched[at].Name()) }

// shardOfWatch is the shard of the entry at a position.
func (s *session) shardOfWatch(at int) int { return s.loop.srv.places.OfFace(s.watched[at]) }

func (s *session) watch() {
	name := s.cmd.Name
	if s.watchAt(name) >= 0 {
		s.loop.out = beanstalk.AppendWatching(s.loop.out, len(s.watched))
		return
	}
	op := &s.req.Op
	sh := s.loop.srv.places.OfTube(name)
	op.Kind, op.Client, op.Name, op.Waiter = core.OpWatch, s.clientAt(sh), name, &s.waiter
	op.Mirror = s.spread || s.shardOfWatch(0) != sh
	s.submit(sh, stepWatch)
}

func (s *session) watchedNow(r *core.Reply, l *link) {
	op := &s.req.Op
	op.Name, op.Waiter = nil, nil
	if r.Status != core.StatusOK {
		s.say(beanstalk.MsgOutOfMemory)
		return
	}
	l.watching++
	s.survey.forget()
	s.watched = append(s.watched, r.Face)
	if n := len(s.watched); n > watchScan {
		for s.byName.Len() < n {
			s.byName.Add(s.watchHash)
		}
	}
	s.gather.at = 0
	s.gather.spread = r.Mirror != nil && !s.spread
	s.mirrorNext()
}

// mirrorNext asks for the published keys of the entries before the last, which has
// its own, once the list reaches over several shards.
func (s *session) mirrorNext() {
	if s.gather.spread && s.gather.at < len(s.watched)-1 {
		op := &s.req.Op
		op.Kind, op.Client, op.Tube = core.OpMirror, 0, s.watched[s.gather.at].ID()
		s.submit(s.shardOfWatch(s.gather.at), stepMirror)
		return
	}
	s.spread = s.spread || s.gather.spread
	s.loop.out = beanstalk.AppendWatching(s.loop.out, len(s.watched))
}

func (s *session) mirrored() {
	s.gather.at++
	s.mirrorNext()
}

func (s *session) ignore() {
	i := s.watchAt(s.cmd.Name)
	if i < 0 {
		s.loop.out = beanstalk.AppendWatching(s.loop.out, len(s.watched))
		return
	}
	if len(s.watched) == 1 {
		s.say(beanstalk.MsgNotIgnored)
		return
	}
	s.submit(s.unwatch(i), stepIgnore)
}

// unwatch takes an entry off the list; the last one takes its place, as in
// the reference (ms.c, ms_delete), and list-tubes-watched shows it. The operation
// for its shard, which is returned, is left to be submitted.
func (s *session) unwatch(i int) (sh int) {
	op := &s.req.Op
	sh = s.shardOfWatch(i)
	op.Kind, op.Client, op.Tube = core.OpIgnore, s.clientAt(sh), s.watched[i].ID()
	s.survey.forget()
	n := len(s.watched) - 1
	switch {
	case n == watchScan:
		s.byName = listindex.Index{}
	case n > watchScan:
		s.byName.Remove(i, s.watchHash)
	}
	s.watched[i] = s.watched[n]
	s.watched[n] = nil
	s.watched = listindex.Shrink(s.watched[:n])
	s.linkTo(sh).watching--
	return sh
}

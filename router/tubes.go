package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/shard"
)

// watchScan is the length of a watch list up to which comparing names beats a
// map.
const watchScan = 8

// join submits a new session's first operation: it uses and watches "default".
func (s *session) join() {
	op := &s.req.Op
	op.Kind, op.Client, op.Waiter = shard.OpJoin, 0, &s.waiter
	op.Name, op.Mirror = defaultTube, false
	s.submit(s.loop.srv.shardOf(defaultTube), stepJoin)
	s.advance()
}

var defaultTube = []byte("default")

func (s *session) joined(r *shard.Reply, l *link) {
	ref := tubeRef{name: r.TubeName, shard: s.target, id: r.Tube}
	s.used = ref
	s.watched = append(s.watched, watchRef{tubeRef: ref})
	s.bare++
	l.watching++
	s.req.Op.Name, s.req.Op.Waiter = nil, nil
}

// use changes the used tube. The new one is opened before the old one is let
// go, which list-tubes shows.
func (s *session) use() {
	op := &s.req.Op
	name := s.cmd.Name
	sh := s.loop.srv.shardOf(name)
	op.Kind, op.Client, op.Name, op.Tube = shard.OpUse, 0, name, 0
	if sh == s.used.shard {
		op.Tube = s.used.id
	}
	s.submit(sh, stepUse)
}

func (s *session) usedNow(r *shard.Reply) {
	op := &s.req.Op
	op.Name = nil
	old := s.used
	s.used = tubeRef{name: r.TubeName, shard: s.target, id: r.Tube}
	if old.shard == s.target {
		s.loop.out = beanstalk.AppendUsing(s.loop.out, s.used.name)
		return
	}
	op.Kind, op.Tube = shard.OpUnuse, old.id
	s.submit(old.shard, stepUnuse)
}

// watchAt is the position of name in the watch list, or -1.
func (s *session) watchAt(name []byte) int {
	if s.byName != nil {
		if i, ok := s.byName[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range s.watched {
		if s.watched[i].name == string(name) {
			return i
		}
	}
	return -1
}

func (s *session) watch() {
	name := s.cmd.Name
	if s.watchAt(name) >= 0 {
		s.loop.out = beanstalk.AppendWatching(s.loop.out, len(s.watched))
		return
	}
	op := &s.req.Op
	sh := s.loop.srv.shardOf(name)
	op.Kind, op.Client, op.Name, op.Waiter = shard.OpWatch, s.clientAt(sh), name, &s.waiter
	op.Mirror = s.watched[0].mirror != nil || s.watched[0].shard != sh
	s.submit(sh, stepWatch)
}

func (s *session) watchedNow(r *shard.Reply, l *link) {
	op := &s.req.Op
	op.Name, op.Waiter = nil, nil
	l.watching++
	s.watched = append(s.watched, watchRef{
		tubeRef: tubeRef{name: r.TubeName, shard: s.target, id: r.Tube},
		mirror:  r.Mirror,
	})
	if r.Mirror == nil {
		s.bare++
	}
	n := len(s.watched)
	if s.byName != nil {
		s.byName[r.TubeName] = n - 1
	} else if n > watchScan {
		s.byName = make(map[string]int, 2*n)
		for i := range s.watched {
			s.byName[s.watched[i].name] = i
		}
	}
	s.gather.at = 0
	s.mirrorNext()
}

// mirrorNext asks for the published keys of the entries that have none, once
// the list reaches over several shards.
func (s *session) mirrorNext() {
	if s.bare > 0 && s.watched[len(s.watched)-1].mirror != nil {
		i := s.gather.at // all before it have theirs
		for s.watched[i].mirror != nil {
			i++
		}
		op := &s.req.Op
		op.Kind, op.Client, op.Tube = shard.OpMirror, 0, s.watched[i].id
		s.gather.at = i
		s.submit(s.watched[i].shard, stepMirror)
		return
	}
	s.loop.out = beanstalk.AppendWatching(s.loop.out, len(s.watched))
}

func (s *session) mirrored(r *shard.Reply) {
	s.watched[s.gather.at].mirror = r.Mirror
	s.bare--
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
	w := s.unwatch(i)
	op := &s.req.Op
	op.Kind, op.Client, op.Tube = shard.OpIgnore, s.clientAt(w.shard), w.id
	s.submit(w.shard, stepIgnore)
}

// unwatch takes an entry off the list; the last one takes its place, as in
// the reference (ms.c, ms_delete), and list-tubes-watched shows it.
func (s *session) unwatch(i int) watchRef {
	w := s.watched[i]
	n := len(s.watched) - 1
	s.watched[i] = s.watched[n]
	s.watched[n] = watchRef{}
	s.watched = s.watched[:n]
	if s.byName != nil {
		delete(s.byName, w.name)
		if i < n {
			s.byName[s.watched[i].name] = i
		}
	}
	if w.mirror == nil {
		s.bare--
	}
	s.linkTo(w.shard).watching--
	return w
}

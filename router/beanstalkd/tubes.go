package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/router/access"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// use changes the used tube. It uses the new tube before it releases the old one; clients can see
// this order in list-tubes.
func (c *conn) use() {
	name := c.cmd.Name
	if c.Credential().Verbs(name) == 0 {
		c.useNothing()
		return
	}
	shard := c.Host().Map.OfTube(name)
	old := core.TubeID(0)
	if shard == c.used.Shard {
		old = c.used.ID
	}
	c.Op().Use(name, old)
	c.runOn(shard, (*conn).usedNow)
}

func (c *conn) usedNow(r *core.Reply) {
	old := c.used
	c.used = c.Host().Map.TubeOf(r.Face)
	c.refresh()
	if old.Shard == c.Visited() {
		c.sayUsing()
		return
	}
	c.unuse(old)
}

// unuse ends the use of the old tube, and replies.
func (c *conn) unuse(old ops.Tube) {
	c.Op().Unuse(old.ID)
	c.runOn(old.Shard, func(c *conn, _ *core.Reply) { c.sayUsing() })
}

func (c *conn) sayUsing() {
	c.SetOut(beanstalk.AppendUsing(c.Out(), c.used.Name))
}

func (c *conn) sayWatching() {
	c.SetOut(beanstalk.AppendWatching(c.Out(), c.watching()))
}

func (c *conn) watch() {
	name := c.cmd.Name
	if c.watched.Find(name) >= 0 {
		c.sayWatching()
		return
	}
	c.runOn(c.watched.Watch(c.Host().Map, &c.handles, name, c.Op()), (*conn).watchedNow)
}

func (c *conn) watchedNow(r *core.Reply) {
	if r.Status != core.StatusOK {
		c.fail(outOfMemory)
		return
	}
	if c.addWatched(r.Face) {
		c.published(r)
	}
}

// addWatched adds a tube to the watch list. It kills the session, and returns false, if the client
// has lost the right since its command.
func (c *conn) addWatched(f *core.Face) bool {
	c.watched.Add(f, c.handles.In(c.Visited()))
	c.nominal = c.nominal && f.Name() != DefaultTube
	if c.Credential().Verbs([]byte(f.Name()))&access.Work == 0 {
		c.Kill()
		return false
	}
	return true
}

// published makes the other tubes of the watch list publish their keys, if that is necessary.
func (c *conn) published(r *core.Reply) {
	if shard := c.watched.Publish(c.Host().Map, r.Mirror, c.Op()); shard != ops.None {
		c.runOn(shard, (*conn).published)
		return
	}
	c.sayWatching()
}

func (c *conn) ignore() {
	i := c.watched.Find(c.cmd.Name)
	nominal := i < 0 && c.nominal && string(c.cmd.Name) == DefaultTube
	switch {
	case i < 0 && !nominal:
		c.sayWatching()
	case c.watching() == 1:
		c.Say(beanstalk.MsgNotIgnored)
	case nominal:
		c.nominal = false
		c.sayWatching()
	default:
		shard := c.watched.Remove(c.Host().Map, &c.handles, i, c.Op())
		if c.nominal {
			c.refresh() // it may be the last tube but the nominal one
		}
		c.runOn(shard, func(c *conn, _ *core.Reply) { c.sayWatching() })
	}
}

func (c *conn) paused(r *core.Reply) {
	if r.Status == core.StatusNotFound {
		c.fail(notFound)
		return
	}
	c.Say(beanstalk.MsgPaused)
}

// A listing appends the next part of a reply that lists tubes, and reports whether there is more.
// Between parts the loop's other connections have their turns, and a client that does not read
// stops the listing.
type listing func() (more bool)

const (
	// partNames is how many names are written in a part, and namesCost the cost of a part.
	partNames = 512
	namesCost = 64
)

// sayList replies with the parts of p.
func (c *conn) sayList(p listing) {
	c.walking().list = p
	c.sayOn()
}

// sayOn continues the reply of sayList.
func (c *conn) sayOn() {
	if c.Broken() || c.Closing() {
		return
	}
	for c.walk.list() {
		c.Spend(namesCost)
		c.FlushFull()
		if !c.MayContinue() {
			c.goOnLater(0, session.Unread|session.Uncommitted, (*conn).sayOn)
			return
		}
	}
	c.walk.list = nil
}

// listTubes replies to list-tubes with a snapshot of the names. With an access file its first parts
// only choose the names that the client may see.
func (c *conn) listTubes() {
	names, foreign := c.Host().Map.Tubes().Names()
	at, n, name := 0, names.Len(), names.At
	head := func(bytes int) { c.SetOut(beanstalk.AppendTubeListHead(c.Out(), n, bytes)) }
	chosen, bytes := c.Credential() == nil, 0
	if chosen {
		head(names.ShownBytes())
	}
	var seen []string
	c.sayList(func() bool {
		for end := min(at+partNames, n); at < end; at++ {
			name := name(at)
			switch {
			case !chosen && c.Credential().Verbs([]byte(name)) == 0:
				continue
			case foreign:
				name = string(gearman.AppendQuoted(nil, []byte(name)))
			}
			if chosen {
				c.SetOut(beanstalk.AppendTubeListName(c.Out(), name))
				continue
			}
			seen = append(seen, name)
			bytes += len(name)
		}
		switch {
		case at < n:
			return true
		case !chosen:
			at, n, name, chosen, foreign = 0, len(seen), func(i int) string { return seen[i] }, true, false
			head(bytes)
			return true
		}
		c.Say(beanstalk.MsgTubeListEnd)
		return false
	})
}

// listWatched replies to list-tubes-watched. Its first parts only compute the length.
func (c *conn) listWatched() {
	at, bytes, counted := 0, 0, false
	each := func(f func(w *core.Face)) (end bool) {
		for stop := min(at+partNames, c.watched.Len()); at < stop; at++ {
			f(c.watched.Face(at))
		}
		return at == c.watched.Len()
	}
	c.sayList(func() bool {
		if !counted {
			if counted = each(func(w *core.Face) { bytes += len(w.Name()) }); !counted {
				return true
			}
			at = 0
			if c.nominal {
				bytes += len(DefaultTube)
			}
			c.SetOut(beanstalk.AppendTubeListHead(c.Out(), c.watching(), bytes))
			if c.nominal {
				c.SetOut(beanstalk.AppendTubeListName(c.Out(), DefaultTube))
			}
		}
		if !each(func(w *core.Face) { c.SetOut(beanstalk.AppendTubeListName(c.Out(), w.Name())) }) {
			return true
		}
		c.Say(beanstalk.MsgTubeListEnd)
		return false
	})
}

package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A listing appends some of a reply that is as long as there are tubes or watches, and
// reports whether there is more: then the loop's other connections have their turns in
// between, and a client that does not read has no more for now.
type listing func() (more bool)

const (
	// partNames are written in a part, in about as many units as namesCost.
	partNames = 512
	namesCost = 64
)

// sayList answers with what p brings.
func (c *conn) sayList(p listing) {
	c.walking().list = p
	c.sayOn()
}

// sayOn goes on with it.
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

// listTubes answers list-tubes: with the tubes that there are now.
func (c *conn) listTubes() {
	names, foreign := c.Host().Map.Tubes().Names()
	out := c.Out()
	*out = beanstalk.AppendTubeListHead(*out, names.Len(), names.ShownBytes())
	at := 0
	c.sayList(func() bool {
		out := c.Out()
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
		c.Say(beanstalk.MsgTubeListEnd)
		return false
	})
}

// listWatched answers list-tubes-watched. Its first parts only add up how long it is.
func (c *conn) listWatched() {
	at, bytes, counted := 0, 0, false
	each := func(f func(w *core.Face)) (end bool) {
		for stop := min(at+partNames, c.watched.Len()); at < stop; at++ {
			f(c.watched.Face(at))
		}
		return at == c.watched.Len()
	}
	c.sayList(func() bool {
		out := c.Out()
		if !counted {
			if counted = each(func(w *core.Face) { bytes += len(w.Name()) }); !counted {
				return true
			}
			at = 0
			*out = beanstalk.AppendTubeListHead(*out, c.watched.Len(), bytes)
		}
		if !each(func(w *core.Face) { *out = beanstalk.AppendTubeListName(*out, w.Name()) }) {
			return true
		}
		c.Say(beanstalk.MsgTubeListEnd)
		return false
	})
}

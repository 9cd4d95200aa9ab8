package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/ops"
	"polystalk/shard/core"
)

// use changes the used tube. The new one is opened before the old one is let go, which
// list-tubes shows.
func (c *conn) use() {
	name := c.cmd.Name
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
	if old.Shard == c.Visited() {
		c.sayUsing()
		return
	}
	c.Op().Unuse(old.ID)
	c.runOn(old.Shard, func(c *conn, _ *core.Reply) { c.sayUsing() })
}

func (c *conn) sayUsing() {
	out := c.Out()
	*out = beanstalk.AppendUsing(*out, c.used.Name)
}

func (c *conn) sayWatching() {
	out := c.Out()
	*out = beanstalk.AppendWatching(*out, c.watched.Len())
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
	c.watched.Add(r.Face, c.handles.In(c.Visited()))
	c.published(r)
}

// published asks for the published keys of the list's other tubes, where that is needed.
func (c *conn) published(r *core.Reply) {
	if shard := c.watched.Publish(c.Host().Map, r.Mirror, c.Op()); shard != ops.None {
		c.runOn(shard, (*conn).published)
		return
	}
	c.sayWatching()
}

func (c *conn) ignore() {
	i := c.watched.Find(c.cmd.Name)
	switch {
	case i < 0:
		c.sayWatching()
	case c.watched.Len() == 1:
		c.Say(beanstalk.MsgNotIgnored)
	default:
		shard := c.watched.Remove(c.Host().Map, &c.handles, i, c.Op())
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

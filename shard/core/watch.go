package core

// A watch is one tube on one client's watch list, and the client's place in
// that tube's queue while it waits. There may be millions, so it is a record of
// 16 bytes outside the collector's view; see Core.watches.
type watch struct {
	client     ClientID
	tube       TubeID
	prev, next uint32 // in the tube's queue
}

// A watchList is the tubes that a client watches, in the order that list-tubes
// would show.
type watchList struct {
	list   []uint32  // watches
	byTube ListIndex // kept from watchScan tubes on
}

// watchScan is the length of a watch list up to which walking it beats looking
// into an index.
const watchScan = 16

// waitQueue is a tube's waiting clients, first come first served: a list of
// watches.
type waitQueue struct {
	head, tail uint32
	n          int
}

func (c *Core) queue(q *waitQueue, i uint32) {
	w := c.watches.At(i)
	w.prev, w.next = q.tail, 0
	if q.tail != 0 {
		c.watches.At(q.tail).next = i
	} else {
		q.head = i
	}
	q.tail = i
	q.n++
}

func (c *Core) unqueue(q *waitQueue, i uint32) {
	w := c.watches.At(i)
	if w.prev != 0 {
		c.watches.At(w.prev).next = w.next
	} else {
		q.head = w.next
	}
	if w.next != 0 {
		c.watches.At(w.next).prev = w.prev
	} else {
		q.tail = w.prev
	}
	w.prev, w.next = 0, 0
	q.n--
}

// watchAt is the position of t on cl's watch list, or -1.
func (c *Core) watchAt(cl *client, t *tube) int {
	l := &cl.watches
	if l.byTube.Len() == 0 {
		for at, i := range l.list {
			if c.watches.At(i).tube == t.id {
				return at
			}
		}
		return -1
	}
	at := l.byTube.First(tubeHash(t.id))
	for at >= 0 && c.watches.At(l.list[at]).tube != t.id {
		at = l.byTube.Next(at)
	}
	return at
}

// tubeHash spreads neighbours far apart.
func tubeHash(id TubeID) uint64 { return uint64(id) * 0x9E3779B97F4A7C15 >> 32 }

// watch puts t on cl's watch list. It reports false, and has changed nothing, when
// there is no memory.
func (c *Core) watch(cl *client, t *tube) bool {
	i, w := c.watches.Alloc()
	if i == 0 {
		return false
	}
	c.unwait(cl)
	w.client, w.tube = cl.id, t.id
	l := &cl.watches
	l.list = append(l.list, i)
	t.watching++
	if n := len(l.list); n > watchScan {
		for l.byTube.Len() < n {
			l.byTube.Add(func(at int) uint64 { return tubeHash(c.watches.At(l.list[at]).tube) })
		}
	}
	return true
}

// ignore takes the entry at a position off the watch list: the last one takes its
// place, as in the reference (ms.c, ms_delete).
func (c *Core) ignore(cl *client, at int) {
	c.unwait(cl)
	l := &cl.watches
	i := l.list[at]
	t := c.tubes[c.watches.At(i).tube]
	if cl.mail != nil {
		delete(cl.timeouts, t.id)
		t.gear.remove(i)
		c.workerLeft(t)
	}
	n := len(l.list) - 1
	switch {
	case n == watchScan:
		l.byTube = ListIndex{}
	case n > watchScan:
		l.byTube.Remove(at, func(at int) uint64 { return tubeHash(c.watches.At(l.list[at]).tube) })
	}
	l.list[at] = l.list[n]
	l.list = Shrink(l.list[:n])
	c.watches.Free(i)
	t.watching--
	c.closeTube(t)
}

// bestTube is the watched tube with the best ready job, nil when nothing can
// be reserved. It walks the shorter of the client's list and the core's list
// of tubes that have something, so idle tubes cost nothing.
func (c *Core) bestTube(cl *client) *tube {
	var best *tube
	var key Key
	list := cl.watches.list
	if len(list) <= watchScan || len(list) <= len(c.ready) {
		for _, i := range list {
			if t := c.tubes[c.watches.At(i).tube]; t.readyPos != 0 {
				if k := t.best(); best == nil || k.Less(key) {
					best, key = t, k
				}
			}
		}
		return best
	}
	for _, t := range c.ready {
		if k := t.best(); (best == nil || k.Less(key)) && c.watchAt(cl, t) >= 0 {
			best, key = t, k
		}
	}
	return best
}

// wait queues cl in every tube it watches.
func (c *Core) wait(cl *client, seq uint64, until Time) {
	cl.waiting = true
	cl.seq = seq
	cl.until = until
	for _, i := range cl.watches.list {
		c.queue(&c.tubes[c.watches.At(i).tube].waiters, i)
	}
	c.counts.waiting++
	c.timers.want(&cl.timer, c.dueAt(&cl.timer))
}

// unwait takes cl out of the queues again. A wait that another shard has
// served stays queued here until OpCancel or until it is found out; since a
// session has one command under way, its next reserve, watch or ignore here
// ends it too.
func (c *Core) unwait(cl *client) {
	if !cl.waiting {
		return
	}
	cl.waiting = false
	for _, i := range cl.watches.list {
		c.unqueue(&c.tubes[c.watches.At(i).tube].waiters, i)
	}
	c.counts.waiting--
}

// clientOf is whose watch i is.
func (c *Core) clientOf(i uint32) *client { return c.clients[c.watches.At(i).client] }

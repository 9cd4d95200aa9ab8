package shard

// A client is a connection as one core knows it: what it watches here, what
// it holds here, whether it waits here.
type client struct {
	id      ClientID
	waiter  *Waiter
	watches []*watch
	byTube  map[*tube]*watch // kept from watchScan tubes on

	held jobList // reserved jobs, oldest reservation first
	due  jobHeap // the same by deadline

	waiting bool
	seq     uint64 // the wait's number, for Waiter.Claim
	until   Time   // when the wait times out

	timer timer

	mail   *Mail     // of a Gearman session; nil: none
	awaits *awaiting // the jobs that it waits for
}

// A watch is one tube on one client's watch list, and the client's place in
// that tube's queue while it waits.
type watch struct {
	client     *client
	tube       *tube
	pos        int  // index in client.watches
	timeout    Time // of jobs that the client grabs here; zero: none
	prev, next *watch
}

// watchScan is the length of a watch list up to which walking it beats
// looking into a map.
const watchScan = 16

// waitQueue is a tube's waiting clients, first come first served.
type waitQueue struct {
	head, tail *watch
	n          int
}

func (q *waitQueue) push(w *watch) {
	w.prev, w.next = q.tail, nil
	if q.tail != nil {
		q.tail.next = w
	} else {
		q.head = w
	}
	q.tail = w
	q.n++
}

func (q *waitQueue) remove(w *watch) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.tail = w.prev
	}
	w.prev, w.next = nil, nil
	q.n--
}

// client returns the client of that handle, a new one for zero.
func (c *Core) clientFor(op *Op) *client {
	if op.Client != 0 {
		return c.clients[op.Client]
	}
	cl := &client{waiter: op.Waiter}
	cl.timer.client = cl
	if n := len(c.freeClients); n > 0 {
		cl.id = c.freeClients[n-1]
		c.freeClients = c.freeClients[:n-1]
		c.clients[cl.id] = cl
	} else {
		cl.id = ClientID(len(c.clients))
		c.clients = append(c.clients, cl)
	}
	return cl
}

func (cl *client) find(t *tube) *watch {
	if cl.byTube != nil {
		return cl.byTube[t]
	}
	for _, w := range cl.watches {
		if w.tube == t {
			return w
		}
	}
	return nil
}

func (c *Core) watch(cl *client, t *tube) {
	c.unwait(cl)
	w := &watch{client: cl, tube: t, pos: len(cl.watches)}
	cl.watches = append(cl.watches, w)
	t.watching++
	switch {
	case cl.byTube != nil:
		cl.byTube[t] = w
	case len(cl.watches) > watchScan:
		cl.byTube = make(map[*tube]*watch, 2*len(cl.watches))
		for _, w := range cl.watches {
			cl.byTube[w.tube] = w
		}
	}
}

// ignore takes the watch off the list: the last one takes its place, as in
// the reference (ms.c, ms_delete).
func (c *Core) ignore(cl *client, w *watch) {
	c.unwait(cl)
	if cl.mail != nil {
		w.tube.gear.remove(w)
		c.workerLeft(w.tube)
	}
	n := len(cl.watches) - 1
	last := cl.watches[n]
	cl.watches[w.pos] = last
	last.pos = w.pos
	cl.watches[n] = nil
	cl.watches = cl.watches[:n]
	delete(cl.byTube, w.tube)
	w.tube.watching--
	c.closeTube(w.tube)
}

// bestTube is the watched tube with the best ready job, nil when nothing can
// be reserved. It walks the shorter of the client's list and the core's list
// of tubes that have something, so idle tubes cost nothing.
func (c *Core) bestTube(cl *client) *tube {
	var best *tube
	var key Key
	if len(cl.watches) <= watchScan || len(cl.watches) <= len(c.ready) {
		for _, w := range cl.watches {
			if t := w.tube; t.readyPos != 0 {
				if k := t.best(); best == nil || k.Less(key) {
					best, key = t, k
				}
			}
		}
		return best
	}
	for _, t := range c.ready {
		if k := t.best(); (best == nil || k.Less(key)) && cl.byTube[t] != nil {
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
	for _, w := range cl.watches {
		w.tube.waiters.push(w)
	}
	c.counts.waiting++
	c.timers.want(&cl.timer, cl.dueAt())
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
	for _, w := range cl.watches {
		w.tube.waiters.remove(w)
	}
	c.counts.waiting--
}

// match hands the ready jobs of t to those who wait for them, the most urgent
// job to whoever came first. It is its own step after every transition that
// makes a job ready: no tube keeps both a job to give and a client to give
// it to.
func (c *Core) match(t *tube) {
	for t.readyPos != 0 && t.waiters.head != nil {
		cl := t.waiters.head.client
		if !cl.waiter.Claim(cl.seq) {
			c.unwait(cl) // served by another shard, or gone
			continue
		}
		c.unwait(cl)
		j := c.reserve(t, cl)
		c.woke(cl, StatusReserved, j)
	}
	if t.gear != nil && t.readyPos != 0 {
		c.rouse(t.gear)
	}
}

// reserve takes the best job of t for cl.
func (c *Core) reserve(t *tube, cl *client) *job {
	i := t.ready.top().job
	j := c.jobs.At(i)
	c.leaveReady(t, j)
	c.enterReserved(t, i, j, cl)
	return j
}

// wake ends the wait of cl with a status, unless another shard has ended it.
func (c *Core) wake(cl *client, s Status) {
	won := cl.waiter.Claim(cl.seq)
	c.unwait(cl)
	if won {
		c.woke(cl, s, nil)
	}
}

// woke fills the message of a waiter that was won; j is nil unless it gets one.
func (c *Core) woke(cl *client, s Status, j *job) {
	m := &cl.waiter.Msg
	m.Op.Client = cl.id
	m.Reply = Reply{Status: s, Client: cl.id, Held: uint32(cl.held.n)}
	if j != nil {
		c.replyJob(&m.Reply, s, j)
		m.keepBody()
	}
	c.woken = append(c.woken, cl.waiter)
}

// returnJobs makes up to most of cl's reserved jobs ready again, oldest
// reservation first. It reports whether none is left.
func (c *Core) returnJobs(cl *client, most int) bool {
	for ; most > 0 && cl.held.n > 0; most-- {
		i := cl.held.head
		j := c.jobs.At(i)
		t := c.tubes[j.tube]
		c.leaveReserved(t, i, j)
		c.giveBack(t, i, j, cl)
	}
	return cl.held.n == 0
}

// ignoreSome takes up to most tubes off the watch list, in the reference's order
// (ms.c, ms_clear), which list-tubes shows. It reports whether none is left.
func (c *Core) ignoreSome(cl *client, most int) bool {
	for ; most > 0 && len(cl.watches) > 0; most-- {
		c.ignore(cl, cl.watches[0])
	}
	return len(cl.watches) == 0
}

// closeClient forgets cl, which holds nothing any more, unless its watch list
// is longer than most: then it takes that many entries off and reports false.
func (c *Core) closeClient(cl *client, most int) bool {
	if !c.ignoreSome(cl, most) {
		return false
	}
	c.timers.stop(&cl.timer)
	c.clients[cl.id] = nil
	c.freeClients = append(c.freeClients, cl.id)
	return true
}

package core

import (
	"fmt"

	"polystalk/shard/listindex"
)

// A client is a connection as one core knows it: what it watches here, what
// it holds here, whether it waits here.
type client struct {
	id      ClientID
	waiter  *Waiter
	watches watchList

	held jobList // reserved jobs, oldest reservation first
	due  jobHeap // the same by deadline, in time awake

	waiting bool
	seq     uint64 // the wait's number, for Waiter.Claim
	until   Time   // when the wait times out, in time awake

	timer timer

	mail     *Mail           // of a Gearman session; nil: none
	follows  *follower       // the jobs that it waits for
	timeouts map[TubeID]Time // of jobs that it grabs there; not there: none
}

// A clientTable is a core's clients by handle; 0 is nil.
type clientTable struct {
	clients     []*client
	freeClients []ClientID
}

// clientFor returns the client of that handle, a new one for zero.
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

// match hands the ready jobs of t to those who wait for them, the most urgent
// job to whoever came first, and publishes what is left. It is its own step after
// every transition that makes a job ready: no tube keeps both a job to give and a
// client to give it to, unless that one's wait is closed.
func (c *Core) match(t *tube) {
	for i := t.waiters.head; i != 0 && t.readyPos != 0; {
		cl := c.clientOf(i)
		i = c.watches.At(i).next
		switch cl.waiter.offer(cl.seq) {
		case offerWon:
			c.unwait(cl)
			j := c.reserve(t, cl)
			c.woke(cl, StatusReserved, j)
		case offerLost:
			c.unwait(cl) // served by another shard, or gone
		}
	}
	c.publish(t)
	if t.function != nil && t.readyPos != 0 {
		c.wakeSleepers(t.function)
	}
}

// reserve takes the best job of t for cl. What t has left is the caller's to
// publish.
func (c *Core) reserve(t *tube, cl *client) *job {
	i := t.ready.top().job
	j := c.jobs.At(i)
	c.leaveReady(t, j)
	c.enterReserved(t, i, j, cl)
	return j
}

// wake ends the wait of cl with a status, unless another shard has ended it. A wait
// that is closed ends here only: its session looks around again, and comes back.
func (c *Core) wake(cl *client, s Status) {
	won := cl.waiter.offer(cl.seq) == offerWon
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
		m.KeepBody()
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
	for ; most > 0 && len(cl.watches.list) > 0; most-- {
		c.ignore(cl, 0)
	}
	return len(cl.watches.list) == 0
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
	list   []uint32        // watches
	byTube listindex.Index // kept from watchScan tubes on
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
		t.function.remove(i)
		c.workerLeft(t)
	}
	n := len(l.list) - 1
	switch {
	case n == watchScan:
		l.byTube = listindex.Index{}
	case n > watchScan:
		l.byTube.Remove(at, func(at int) uint64 { return tubeHash(c.watches.At(l.list[at]).tube) })
	}
	l.list[at] = l.list[n]
	l.list = listindex.Shrink(l.list[:n])
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

func (k *checker) clients() {
	c := k.c
	watching := make(map[*tube]uint32)
	watches := 0
	for id, cl := range c.clients {
		if cl == nil {
			continue
		}
		if cl.id != ClientID(id) || cl.timer.client != cl || cl.timer.tube != nil {
			k.fail("client %d: the handle or the timer is not its own", id)
		}
		watches += len(cl.watches.list)
		k.watchList(cl, watching)
		k.held(cl)
		if cl.waiting {
			k.sums.waiting++
		}
	}
	for _, t := range c.tubes {
		if t != nil && t.watching != watching[t] {
			k.fail("tube %q: %d watch it, counted %d", t.name, watching[t], t.watching)
		}
	}
	if watches != c.watches.Len() {
		k.fail("%d watches, %d on lists", c.watches.Len(), watches)
	}
	// In no fixed order, as above.
	for i, where := range k.at {
		if where == "" {
			j := c.jobs.At(i)
			k.fail("job %d: %s, but in no container", j.id, j.state)
		}
	}
}

// held checks a client's reserved jobs: the same ones in the list, in the
// heap, and under its name.
func (k *checker) held(cl *client) {
	where := fmt.Sprintf("client %d held", cl.id)
	k.list(where, &cl.held, func(i uint32) {
		if j := k.place(i, Reserved, where); j != nil && j.client != cl.id {
			k.fail("%s: job %d belongs to client %d", where, j.id, j.client)
		}
	})
	due := fmt.Sprintf("client %d due", cl.id)
	k.heap(due, &cl.due, func(e heapEntry) {
		j := k.c.jobs.At(e.job)
		if k.at[e.job] != where || e.b != 0 || e.a != uint64(j.deadline) {
			k.fail("%s: job %d is in %q, deadline %d under key %d", due, j.id, k.at[e.job], j.deadline, e.a)
		}
	})
	if cl.held.n != cl.due.n {
		k.fail("%s: %d jobs, %d deadlines", where, cl.held.n, cl.due.n)
	}
}

// watchList checks a client's watch list, and adds it to who watches what.
func (k *checker) watchList(cl *client, watching map[*tube]uint32) {
	c, l := k.c, &cl.watches
	if n, long := l.byTube.Len(), len(l.list) > watchScan; long && n != len(l.list) || !long && n != 0 {
		k.fail("client %d: %d watches, %d in the index", cl.id, len(l.list), n)
		return
	}
	seen := make(map[*tube]bool, len(l.list))
	for at, i := range l.list {
		w := c.watches.At(i)
		t := c.tubes[w.tube]
		if t == nil {
			k.fail("client %d: watches tube %d, which is gone", cl.id, w.tube)
			continue
		}
		if w.client != cl.id || seen[t] || c.watchAt(cl, t) != at {
			k.fail("client %d: watch %d of tube %q is wrong", cl.id, at, t.name)
		}
		seen[t] = true
		watching[t]++
	}
}

// waits checks that a client is in the queue of each tube it watches while it
// waits, once, and otherwise in none.
func (k *checker) waits() {
	c := k.c
	queued := make(map[uint32]bool)
	for _, t := range c.tubes {
		if t == nil {
			continue
		}
		n, prev := 0, uint32(0)
		for i := t.waiters.head; i != 0; prev, i = i, c.watches.At(i).next {
			if w := c.watches.At(i); w.tube != t.id || w.prev != prev || queued[i] || !c.clientOf(i).waiting {
				k.fail("tube %q: waiter %d of client %d does not belong there", t.name, n, w.client)
				break
			}
			queued[i] = true
			n++
		}
		if n != t.waiters.n || t.waiters.tail != prev {
			k.fail("tube %q: %d wait, counted %d, or the tail is wrong", t.name, n, t.waiters.n)
		}
	}
	for _, cl := range c.clients {
		if cl == nil {
			continue
		}
		for _, i := range cl.watches.list {
			if queued[i] != cl.waiting {
				k.fail("client %d: waits: %v; queued in tube %d: %v", cl.id, cl.waiting, c.watches.At(i).tube, queued[i])
			}
			delete(queued, i)
		}
	}
	if len(queued) > 0 {
		k.fail("%d places in wait queues belong to no watch list", len(queued))
	}
}

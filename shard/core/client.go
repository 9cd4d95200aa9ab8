package core

import (
	"fmt"

	"polystalk/shard/listindex"
	"polystalk/shard/stats"
)

// A client is one core's part of a connection: the tubes that it watches in this core, the jobs
// that it holds (has reserved), and its wait.
type client struct {
	id      ClientID
	conn    uint64 // the number of its connection; zero: it has none
	waiter  *Waiter
	watches watchList

	held List // reserved jobs, oldest reservation first
	due  Heap // the reserved jobs by deadline, in time awake

	waiting bool
	seq     uint64 // the number of the wait, for Waiter.Claim
	until   Time   // when the wait times out, in time awake

	timer timer

	// Only for a client of functions; see usesFunctions.
	mail     *Mail
	follows  *follower       // the jobs that it follows, newest first
	timeouts map[TubeID]Time // how long a job that it grabs from a function may run; no entry: for ever
}

// A clientTable is a core's clients by handle; 0 is nil.
type clientTable struct {
	clients     []*client
	freeClients []ClientID
}

// clientAt is the client of a handle, which must be in use.
func (c *clientTable) clientAt(id ClientID) *client {
	cl := c.clients[id]
	if cl == nil {
		c.noClient(id)
	}
	return cl
}

//go:noinline
func (c *clientTable) noClient(id ClientID) {
	panic(fmt.Sprintf("core: client %d of %d is closed", id, len(c.clients)))
}

// usesFunctions reports whether cl submits jobs or works for functions. Its submitted jobs run
// out after its timeout for their function, since they have no time to run. It is notified by
// its Mail; other clients have only a Waiter.
func (cl *client) usesFunctions() bool { return cl.mail != nil }

// setWaiter makes w the Waiter of cl. It panics if cl waits with another Waiter, since no
// shard would end that wait any more.
func (cl *client) setWaiter(w *Waiter) {
	if cl.waiting && cl.waiter != w {
		panic(fmt.Sprintf("core: client %d is given another Waiter in its wait %d", cl.id, cl.seq))
	}
	cl.waiter = w
}

// clientFor returns the client of op, a new one for zero.
func (c *Core) clientFor(op *Op) *client {
	if op.Client != 0 {
		return c.clientAt(op.Client)
	}
	cl := &client{waiter: op.Waiter, conn: op.Conn}
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

// reserve takes the best job of t for cl. The caller must publish t.
func (c *Core) reserve(t *tube, cl *client) *Job {
	i := t.ready.top().Job
	j := c.jobs.At(i)
	t.flowOf().Waited(&c.sums.Totals, c.since(j))
	c.leaveReady(t, i, j)
	c.enterReserved(t, i, j, cl)
	return j
}

// returnJobs makes up to limit of cl's reserved jobs ready again, oldest
// reservation first. It reports whether none is left.
func (c *Core) returnJobs(cl *client, limit int) bool {
	for ; limit > 0 && cl.held.N > 0; limit-- {
		i := cl.held.Head
		j := c.jobs.At(i)
		t := c.tubes[j.Tube]
		c.leaveReserved(t, i, j)
		c.count(t, stats.Return)
		c.giveBack(t, i, j, cl)
	}
	return cl.held.N == 0
}

// ignoreSome takes up to limit tubes off the watch list, in the reference's order
// (ms.c, ms_clear), which list-tubes shows. It reports whether none is left.
func (c *Core) ignoreSome(cl *client, limit int) bool {
	for ; limit > 0 && len(cl.watches.list) > 0; limit-- {
		c.ignore(cl, 0)
	}
	return len(cl.watches.list) == 0
}

// closeClient forgets cl, which must hold no job. If its watch list is longer than limit,
// closeClient removes that many entries and reports false.
func (c *Core) closeClient(cl *client, limit int) bool {
	if !c.ignoreSome(cl, limit) {
		return false
	}
	if c.clients[cl.id] != cl || cl.held.N != 0 || cl.waiting {
		panic(fmt.Sprintf("core: client %d is closed twice, or too early: it holds %d jobs, waits: %v", cl.id, cl.held.N, cl.waiting))
	}
	c.timers.stop(&cl.timer)
	c.clients[cl.id] = nil
	c.freeClients = append(c.freeClients, cl.id)
	return true
}

// A watch is one tube on one client's watch list, and the client's place in
// that tube's queue while it waits. There may be millions, so a watch is a record of
// 16 bytes outside the collector's view; see Core.watches.
type watch struct {
	client     ClientID
	tube       TubeID
	prev, next uint32 // in the tube's queue
}

// A watchList is the tubes that a client watches, in the order that list-tubes would show.
type watchList struct {
	list   []uint32        // watches
	byTube listindex.Index // empty up to watchScan tubes
}

// watchScan is the length of a watch list up to which a walk is faster than an index.
const watchScan = 16

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

// tubeHash gives successive handles distant hashes.
func tubeHash(id TubeID) uint64 { return uint64(id) * 0x9E3779B97F4A7C15 >> 32 }

// watch puts t on cl's watch list. Without memory it reports false and changes nothing.
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

// ignore removes the entry at a position from the watch list. The last entry takes its place,
// as in the reference (ms.c, ms_delete).
func (c *Core) ignore(cl *client, at int) {
	c.unwait(cl)
	l := &cl.watches
	i := l.list[at]
	t := c.tubes[c.watches.At(i).tube]
	if cl.usesFunctions() {
		delete(cl.timeouts, t.id)
		t.function.remove(i)
		c.wakeOthers(t)
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
	if t.watching == 0 {
		panic(fmt.Sprintf("core: client %d ignores tube %q, which nobody watches", cl.id, t.name))
	}
	t.watching--
	c.closeTube(t)
}

// bestTube returns the watched tube with the best job that can be reserved, or nil. It walks
// the shorter of the client's watch list and the core's list of ready tubes, so idle tubes cost
// nothing.
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

// clientOf returns the client of watch i.
func (c *Core) clientOf(i uint32) *client { return c.clients[c.watches.At(i).client] }

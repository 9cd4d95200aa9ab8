package core

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
	awaits   *awaiting       // the jobs that it waits for
	timeouts map[TubeID]Time // of jobs that it grabs there; not there: none
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
	if t.gear != nil && t.readyPos != 0 {
		c.rouse(t.gear)
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

package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A conn is one Gearman connection: a session, its current command, and its state as a client
// and as a worker. It implements session.Protocol.
type conn struct {
	session.Session
	front *Front

	// The next step; see the package doc. runOn sets then; callers of After and Later set next.
	input func(c *conn, b []byte) (n int, more bool)
	then  func(*conn, *core.Reply)
	next  func(*conn)

	m      gearman.Message // the current command
	args   []byte          // copy of its arguments, if they must outlive the input
	skip   int             // bytes behind it that must be skipped
	op     core.FunctionOp // the Gearman part of its operation
	walk   ops.Walk        // of commands that visit all shards
	uniq   uniqueStatus    // result so far of GET_STATUS_UNIQUE
	list   *workersList    // progress of the reply to workers; nil: there is none
	hidden string          // the tube of a job that was hidden from the command

	mail    core.Mail
	early   earlyMail // received during a submission or a list
	patient patience

	handles    ops.Handles
	abilities  abilities
	grabbing   int  // position of the ability for which it grabs a job
	sleeping   bool // counted among the sleepers of each ability
	exceptions bool
	excepted   core.JobID // the last job that it ended with an exception
	entry      *entry     // its entry in the directory
}

// Op returns the operation that runOn runs.
func (c *conn) Op() *core.Op {
	op := c.Session.Op()
	op.Function = &c.op
	return op
}

// runOn makes Run run the operation on a shard; then takes its reply.
func (c *conn) runOn(shard int, then func(*conn, *core.Reply)) {
	c.then = then
	c.Visit(shard)
}

// visitLater visits the same shard again, with the same operation, for the next part of bounded
// work: in a later turn, once none of until stops the session.
func (c *conn) visitLater(until session.Stops) {
	c.next = (*conn).visitAgain
	c.Later(session.PartUnits, until)
}

func (c *conn) visitAgain() { c.Visit(c.Visited()) }

// afterwards makes Run call next as soon as no shard is owned.
func (c *conn) afterwards(next func(*conn)) {
	c.next = next
	c.After()
}

// Replied implements session.Protocol.
func (c *conn) Replied(r *core.Reply) {
	c.handles.Learn(c.Visited(), len(c.places().Shards()), r)
	c.then(c, r)
}

// Next implements session.Protocol.
func (c *conn) Next() {
	next := c.next
	c.next = nil
	next(c)
}

// GiveUp implements session.Protocol. No Gearman command waits.
func (c *conn) GiveUp() {}

// places returns the map of functions and jobs to shards.
func (c *conn) places() *ops.Map { return c.front.host.Map }

func (c *conn) handleOf(id core.JobID) gearman.Handle {
	return gearman.Handle{Prefix: c.front.cfg.Load().Prefix, ID: uint64(id)}
}

// find returns the job of a handle and its shard.
func (c *conn) find(handle []byte) (id core.JobID, shard int, ok bool) {
	n, ok := gearman.ParseHandle(c.front.cfg.Load().Prefix, handle)
	if !ok {
		return 0, 0, false
	}
	shard, ok = c.places().OfJob(core.JobID(n))
	return core.JobID(n), shard, ok
}

// Close implements session.Protocol: it releases the connection's jobs and waits. Mail that is
// on its way must stay there: if it were taken now, it could be posted a second time.
func (c *conn) Close() {
	c.wake()
	c.takeEarly()
	c.list = nil
	c.front.directory.remove(c.entry)
	leave := new(ops.Leave)
	leaveOn := func(c *conn, hop ops.Hop) {
		switch {
		case hop.Shard == ops.None:
			c.Gone()
		case hop.Later:
			c.visitLater(0)
		default:
			c.Visit(hop.Shard)
		}
	}
	c.then = func(c *conn, r *core.Reply) { leaveOn(c, leave.Next(r, c.Op())) }
	leaveOn(c, leave.Start(c.places(), &c.handles, nil, ops.Tube{}, c.Op()))
}

// Tell implements session.Teller. It omits the default id.
func (c *conn) Tell(t *session.Client, names int) {
	if id := string(c.entry.id); id != gearman.DefaultClientID { // which this loop alone changes
		t.ID = id
	}
	t.Watching = len(c.abilities.List)
	for i := range min(names, t.Watching) {
		t.Watched = append(t.Watched, c.abilities.List[i].Name())
	}
	t.Places = session.PlacesOf(&c.handles)
}

// Knows implements session.Teller. The connection uses no tube, because submissions name their
// functions.
func (c *conn) Knows(function []byte) bool { return c.abilities.Find(function) >= 0 }

// Holds implements session.Teller.
func (c *conn) Holds() bool { return c.handles.Hold() }

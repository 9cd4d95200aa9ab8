package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A conn is one connection that speaks Gearman: a session, what is under way on it, and
// what it is to its jobs as a client and to its functions as a worker. It implements
// session.Protocol.
type conn struct {
	session.Session
	front *Front

	// What comes next; see the package doc. runOn sets then; callers of After and Later set
	// next.
	input func(c *conn, b []byte) (n int, more bool)
	then  func(*conn, *core.Reply)
	next  func(*conn)

	m    gearman.Message // the command under way
	args []byte          // its arguments, if they outlive the input
	skip int             // bytes behind it that are to be thrown away
	op   core.FunctionOp // what its operation carries besides core.Op
	walk ops.Walk        // of commands that ask all shards
	uniq uniqueStatus    // what those have said to GET_STATUS_UNIQUE
	list *workersList    // what of the answer to workers was said; nil: none is under way

	mail    core.Mail
	early   earlyMail // came while a submission or a list was under way
	patient patience

	handles    ops.Handles
	abilities  abilities
	grabbing   int  // position of the ability that a job is being grabbed for
	sleeping   bool // counted among the sleepers of each ability
	exceptions bool
	excepted   core.JobID // the last job that it ended with an exception
	entry      *entry     // what others may see of it
}

// Op is the operation that runOn has run.
func (c *conn) Op() *core.Op {
	op := c.Session.Op()
	op.Function = &c.op
	return op
}

// runOn has the operation that was filled in run on a shard; then takes its reply.
func (c *conn) runOn(shard int, then func(*conn, *core.Reply)) {
	c.then = then
	c.Visit(shard)
}

// visitLater visits the same shard again, with the same operation, for a further part of
// bounded work: the loop's other connections come first, and what until names.
func (c *conn) visitLater(until session.Stops) {
	c.next = (*conn).visitAgain
	c.Later(session.PartUnits, until)
}

func (c *conn) visitAgain() { c.Visit(c.Visited()) }

// afterwards has next called as soon as no shard is owned.
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

// GiveUp implements session.Protocol: no command of Gearman's waits.
func (c *conn) GiveUp() {}

// places is where functions and jobs live.
func (c *conn) places() *ops.Map { return c.front.host.Map }

func (c *conn) handleOf(id core.JobID) gearman.Handle {
	return gearman.Handle{Prefix: c.front.cfg.Load().Prefix, ID: uint64(id)}
}

// find is the job of a handle and the shard in which it lives.
func (c *conn) find(handle []byte) (id core.JobID, shard int, ok bool) {
	n, ok := gearman.ParseHandle(c.front.cfg.Load().Prefix, handle)
	if !ok {
		return 0, 0, false
	}
	shard, ok = c.places().OfJob(core.JobID(n))
	return core.JobID(n), shard, ok
}

// Close implements session.Protocol: it gives back what the connection holds and waits
// for. Mail that is under way stays so: taken out now, it could be posted a second time.
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

// Tell implements session.Teller. An id that is not the client's own is none.
func (c *conn) Tell(t *session.Client, names int) {
	if id := string(c.entry.id); id != gearman.DefaultClientID { // which this loop alone changes
		t.ID = id
	}
	t.Watching = len(c.abilities.list)
	for i := range min(names, t.Watching) {
		t.Watched = append(t.Watched, c.abilities.list[i].Name)
	}
	t.Places = session.PlacesOf(&c.handles)
}

// Knows implements session.Teller: submissions name their functions, so it uses none.
func (c *conn) Knows(function []byte) bool { return c.abilities.find(function) >= 0 }

// Holds implements session.Teller.
func (c *conn) Holds() bool { return c.handles.Hold() }

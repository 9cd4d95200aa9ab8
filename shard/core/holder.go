package core

// A Holder is a client of a core with its reserved jobs and watches. The caller names the
// client by handle and connection, since a handle is used again once a client has gone.
type Holder struct {
	Client ClientID
	Conn   uint64

	Known   bool   // the client exists; else the next fields are zero
	Held    uint32 // jobs that it has reserved
	Oldest  Time   // how long the oldest of them has been reserved
	Waits   bool   // it waits for a job to reserve
	Follows bool   // it waits for results of submitted jobs
}

// holdersMax is how many clients a visit looks up.
const holdersMax = 256

// ListHeld appends the jobs that a client has reserved and that match x.Filter to x.Jobs, in the
// order of reservation, from x.Cursor on. StatusNotFound: conn has no such client, or no longer.
func (o *Op) ListHeld(client ClientID, conn uint64, x *OperatorOp) {
	o.onOperator(opHeld, nil, x)
	o.N, o.Seq = uint32(client), conn
}

// AskHolders fills in x.Holders, from x.Cursor on.
func (o *Op) AskHolders(x *OperatorOp) { o.onOperator(opAskHolders, nil, x) }

// clientOfConn returns the client of a handle, or nil if it is not the client of conn.
func (c *Core) clientOfConn(id ClientID, conn uint64) *client {
	if int(id) >= len(c.clients) || c.clients[id] == nil || c.clients[id].conn != conn {
		return nil
	}
	return c.clients[id]
}

// listHeld runs a ListHeld.
func (c *Core) listHeld(op *Op, r *Reply) {
	cl := c.clientOfConn(ClientID(op.N), op.Seq)
	if cl == nil {
		r.Status = StatusNotFound
		return
	}
	b := c.browse(op.Operator)
	if !b.walk(&cl.held, false, func(j *Job) bool { return j.State == Reserved && j.Client == cl.id }) {
		r.Status = StatusMore
	}
}

// askHolders runs an AskHolders.
func (c *Core) askHolders(x *OperatorOp, r *Reply) {
	end := min(x.Cursor.At+holdersMax, uint64(len(x.Holders)))
	for ; x.Cursor.At < end; x.Cursor.At++ {
		h := &x.Holders[x.Cursor.At]
		*h = Holder{Client: h.Client, Conn: h.Conn}
		cl := c.clientOfConn(h.Client, h.Conn)
		if cl == nil {
			continue
		}
		h.Known, h.Held, h.Waits, h.Follows = true, cl.held.N, cl.waiting, cl.follows != nil
		if i := cl.held.Head; i != 0 {
			h.Oldest = max(0, c.now-c.jobs.At(i).Since)
		}
	}
	if end < uint64(len(x.Holders)) {
		r.Status = StatusMore
	}
}

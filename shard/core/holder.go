package core

// A Holder is a client of a core with its reserved jobs and watches. The caller names the
// client by handle and connection, since a handle is used again once a client has gone.
type Holder struct {
	Client ClientID
	Conn   uint64

	Known   bool   // that connection's client is there; else what follows is zero
	Held    uint32 // jobs that it has reserved
	Oldest  Time   // how long the first of them has been so
	Waits   bool   // for a job to reserve
	Follows bool   // it wants to hear of submitted jobs that have not ended
}

// holdersMax clients are looked at in a visit.
const holdersMax = 256

// ListHeld appends the jobs that a client of a connection has reserved and x.Filter wants to
// x.Jobs, in the order in which it has reserved them, from x.Cursor on. StatusNotFound: the
// client is not, or no longer, that connection's.
func (o *Op) ListHeld(client ClientID, conn uint64, x *OperatorOp) {
	o.onOperator(opHeld, nil, x)
	o.N, o.Seq = uint32(client), conn
}

// AskHolders fills in x.Holders, from x.Cursor on.
func (o *Op) AskHolders(x *OperatorOp) { o.onOperator(opAskHolders, nil, x) }

// clientOfConn is the client of a handle, nil unless it is that connection's.
func (c *Core) clientOfConn(id ClientID, conn uint64) *client {
	if int(id) >= len(c.clients) || c.clients[id] == nil || c.clients[id].conn != conn {
		return nil
	}
	return c.clients[id]
}

// listHeld appends the next jobs of one client.
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

// askHolders tells of the next clients.
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

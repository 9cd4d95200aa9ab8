package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/router/session"
	"polystalk/shard/core"
)

const (
	// killWithin is how long KillConnection waits until the connection has given everything
	// back. Its current operation must end first, and may wait for the disk.
	killWithin = 5 * time.Second
	// heldShown is how many jobs of a connection are shown at most.
	heldShown = 1000
	// namesShown is how many watched tubes of a connection a list shows at most, and namesAll
	// how many Connection shows.
	namesShown = 16
	namesAll   = 1000
)

// A ConnectionQuery says which connections to list.
type ConnectionQuery struct {
	Protocol string // a Front's name; empty: any
	Tube     []byte // that they use, watch or work for; nil: any
	Holding  bool   // only those with reserved jobs
	Limit    int
}

// wants reports whether to list a session. The caller must hold its loop. Whether it has
// reserved jobs is checked again in the shards.
func (q *ConnectionQuery) wants(s *session.Session) bool {
	if q.Protocol != "" && s.Front().Name() != q.Protocol {
		return false
	}
	if q.Tube == nil && !q.Holding {
		return true
	}
	t := s.Teller()
	return t != nil && (q.Tube == nil || t.Knows(q.Tube)) && (!q.Holding || t.Holds())
}

// A Connection is a connection as operators see it.
type Connection struct {
	session.Snapshot
	Command string    // the last one; empty: none
	Holds   uint32    // reserved jobs
	HeldFor core.Time // how long it has had the first of them
	Follows bool      // it waits for results of jobs
}

// State returns what the connection does: idle, busy, waiting for a job to reserve, sleeping
// until the server notifies it of one, or closing.
func (c *Connection) State() string {
	switch {
	case c.Life == session.Ready && c.Roles&session.Sleeper != 0:
		return "sleeping"
	case c.Life == session.Ready:
		return "idle"
	}
	return c.Life
}

// Waits reports whether it waits for a job, or sleeps, since its last command.
func (c *Connection) Waits() bool {
	return c.Life == session.Waiting || c.Roles&session.Sleeper != 0
}

// Produces reports whether it has put a job.
func (c *Connection) Produces() bool { return c.Roles&session.Producer != 0 }

// Works reports whether it has tried to reserve a job.
func (c *Connection) Works() bool { return c.Roles&session.Worker != 0 }

// PeerName returns its address for people.
func (c *Connection) PeerName() string { return session.PeerName(c.Peer) }

// StoppedBy returns what keeps the server from going on with its input.
func (c *Connection) StoppedBy() []string {
	names := []string{}
	for _, s := range []struct {
		stop session.Stops
		name string
	}{
		{session.Unread, "unread_replies"}, {session.Uncommitted, "replies_not_durable"},
		{session.NoSpace, "no_space_on_disk"}, {session.NoPlace, "other_large_bodies"},
	} {
		if c.Stops&s.stop != 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// A connectionPart is a page of the list of connections.
type connectionPart struct {
	Rows   []Connection
	Looked int    // connections that were looked at
	Next   uint64 // the list goes on above that number; zero: this is the end
	At     time.Time
}

// noConnection returns the problem of a request for a connection that does not exist.
func noConnection(number uint64) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no connection %d, or no longer", number))
}

// Connections lists connections with numbers above a number, in their order, which is the
// order of their arrival. A connection that is open from the first page to the last is on
// exactly one page. A page may be shorter than the limit.
func (o *Operator) Connections(ctx context.Context, q *ConnectionQuery, above uint64) (p *connectionPart, err error) {
	if err := o.Ready(); err != nil {
		return nil, err
	}
	p = &connectionPart{At: time.Now(), Rows: []Connection{}}
	for more := true; more; {
		start := time.Now()
		rows, looked, next, err := o.nextConnections(ctx, q, above)
		if err != nil {
			return nil, err
		}
		p.Looked += looked
		if left := q.Limit - len(p.Rows); len(rows) > left {
			rows = rows[:left]
			next = rows[left-1].Number
		}
		for _, s := range rows {
			p.Rows = append(p.Rows, o.connection(s))
		}
		if next == math.MaxUint64 {
			break
		}
		above, p.Next = next, next
		if more = len(p.Rows) < q.Limit && time.Since(p.At) < listWithin; more {
			p.Next = 0
			o.rest(start)
		}
	}
	err = o.read(ctx, func(c *direct.Caller) error {
		askHeld(c, p.Rows)
		return nil
	})
	if q.Holding {
		p.Rows = slices.DeleteFunc(p.Rows, func(r Connection) bool { return r.Holds == 0 })
	}
	return p, err
}

// connection adds the name of the last command to a session.
func (o *Operator) connection(p session.Snapshot) Connection {
	v := Connection{Snapshot: p}
	at := p.Last
	for _, f := range o.opts.Fronts {
		kinds := f.Kinds()
		if at >= 0 && at < len(kinds) {
			_, v.Command, _ = strings.Cut(kinds[at], "-") // the prefix is the protocol
		}
		at -= len(kinds)
	}
	return v
}

// askHeld asks the shards for the jobs that the connections have reserved.
func askHeld(c *direct.Caller, rows []Connection) {
	type ask struct {
		of []int // rows
		x  core.OperatorOp
	}
	asks := make(map[int]*ask)
	for i := range rows {
		for _, p := range rows[i].Client.Places {
			a := asks[p.Shard]
			if a == nil {
				a = new(ask)
				asks[p.Shard] = a
			}
			a.of = append(a.of, i)
			a.x.Holders = append(a.x.Holders, core.Holder{Client: p.Client, Conn: rows[i].Number})
		}
	}
	for shard, a := range asks {
		for more := true; more; {
			c.Op().AskHolders(&a.x)
			more = c.Do(shard).Status == core.StatusMore
		}
		for k, h := range a.x.Holders {
			r := &rows[a.of[k]]
			r.Holds += h.Held
			r.HeldFor = max(r.HeldFor, h.Oldest)
			r.Follows = r.Follows || h.Follows
		}
	}
}

// heldJobs returns the jobs that a connection has reserved, without bodies, the longest held
// first.
func heldJobs(c *direct.Caller, p *session.Snapshot) (rows []JobRow) {
	for _, place := range p.Client.Places {
		x := core.OperatorOp{Limit: heldShown}
		for more := true; more && len(x.Jobs) < heldShown; {
			c.Op().ListHeld(place.Client, p.Number, &x)
			more = c.Do(place.Shard).Status == core.StatusMore
		}
		for _, j := range x.Jobs {
			j.Large = nil
			rows = append(rows, JobRow{JobRow: j, Peer: session.PeerName(p.Peer)})
		}
	}
	slices.SortStableFunc(rows, func(a, b JobRow) int { return cmp.Compare(b.InState, a.InState) })
	return rows[:min(len(rows), heldShown)]
}

// Connection returns a connection, and the jobs that it has held for longest.
func (o *Operator) Connection(ctx context.Context, number uint64) (v Connection, held []JobRow, err error) {
	if err := o.Ready(); err != nil {
		return v, nil, err
	}
	var p session.Snapshot
	err = o.turn(ctx, number, func(s *session.Session) { p = s.Snapshot(namesAll) })
	if err != nil {
		return v, nil, err
	}
	err = o.read(ctx, func(c *direct.Caller) error {
		rows := []Connection{o.connection(p)}
		askHeld(c, rows)
		v, held = rows[0], heldJobs(c, &p)
		return nil
	})
	return v, held, err
}

// KillConnection closes a connection as if it had broken, and returns once that is done. Its
// jobs go back to their tubes, as after the loss of a worker.
func (o *Operator) KillConnection(ctx context.Context, number uint64) (err error) {
	defer func() { o.counts.add("kill", 0, 0, err) }()
	if err := o.Ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, killWithin)
	defer cancel()
	gone := make(chan struct{})
	err = o.turn(ctx, number, func(s *session.Session) {
		if ctx.Err() == nil { // else the operator was told that it was not done
			s.WhenGone(func() { close(gone) })
			s.Kill()
		}
	})
	if err != nil {
		return err
	}
	if !o.await(ctx, gone) {
		return wire.Uncertain.With("", "the connection is closed, but what it last asked for is still under way",
			"look at it again: it is gone when that has ended")
	}
	return nil
}

// turn calls f in a turn of the loop of a session, and waits for its end.
func (o *Operator) turn(ctx context.Context, number uint64, f func(*session.Session)) error {
	l := o.opts.Host.LoopOf(number)
	if l == nil {
		return noConnection(number)
	}
	found := false
	done := make(chan struct{})
	l.SignalNumber(number, func(s *session.Session) {
		if found = s != nil; found {
			f(s)
		}
		close(done)
	})
	switch {
	case !o.await(ctx, done):
		return loopsBusy()
	case !found:
		return noConnection(number)
	}
	return nil
}

func loopsBusy() error { return wire.Busy.Problem("the event loops are late") }

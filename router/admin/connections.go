package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// What a turn of a loop looks at: about 50 microseconds of work, however many connections
// there are.
const (
	turnLooks = 256 // sessions
	turnShows = 32  // of those, which are told of in full
	// A session that is told of takes so many units of its loop's round, since the system is
	// asked for its peer.
	showUnits = 4
)

const (
	// namesShown are how many of the tubes that a connection watches a list shows, and
	// namesAll what is shown of one.
	namesShown = 16
	namesAll   = 1000
	// heldShown is how many of the jobs that a connection holds are shown at most.
	heldShown = 1000
	// killWithin is how long it is waited for a killed connection to have given everything
	// back. It waits for the operation that is under way, and that may wait for the disk.
	killWithin = 5 * time.Second
)

// A ConnectionQuery says which connections are wanted.
type ConnectionQuery struct {
	Protocol string // a Front's name; empty: any
	Tube     []byte // that they use, watch or work for; nil: any
	Holding  bool   // those alone that have jobs reserved
	Limit    int
}

// wants reports whether a session is wanted, for who has its loop. Who holds is looked at
// again where the jobs are.
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

// A Connection is one as an operator sees it.
type Connection struct {
	session.Snapshot
	Command string    // its last one; empty: none
	Holds   uint32    // jobs that it has reserved
	HeldFor core.Time // how long it has had the first of them
	Follows bool      // it waits for the results of jobs
}

// State is what it does: it is idle or busy, waiting for a job to reserve, sleeping until it is
// told of one, or closing.
func (c *Connection) State() string {
	switch {
	case c.Life == session.Ready && c.Roles&session.Sleeper != 0:
		return "sleeping"
	case c.Life == session.Ready:
		return "idle"
	}
	return c.Life
}

// Waits reports whether it waits for a job, or sleeps. It does so since its last command.
func (c *Connection) Waits() bool {
	return c.Life == session.Waiting || c.Roles&session.Sleeper != 0
}

// Produces reports whether it has put a job, Works whether it has reserved one, or wanted to.
func (c *Connection) Produces() bool { return c.Roles&session.Producer != 0 }
func (c *Connection) Works() bool    { return c.Roles&session.Worker != 0 }

// PeerName is its address for people.
func (c *Connection) PeerName() string { return session.PeerName(c.Peer) }

// StoppedBy says what keeps it from going on with what it was sent.
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

// A ConnectionPart is a part of the list of connections.
type ConnectionPart struct {
	Rows   []Connection
	Looked int    // connections that were looked at
	Next   uint64 // the list goes on above that number; zero: this is the end
	At     time.Time
}

// noConnection is the problem of who names a connection that is not there.
func noConnection(number uint64) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no connection %d, or no longer", number))
}

// Connections gives those that are wanted and have numbers above that one, in the order in
// which they came. One that is there from the first part of a list to the last is shown in
// exactly one of them. The part may have fewer than there could be.
func (o *Operator) Connections(ctx context.Context, q *ConnectionQuery, above uint64) (p *ConnectionPart, err error) {
	if err := o.Ready(); err != nil {
		return nil, err
	}
	m := merge{q: q, loops: make([]stream, len(o.opts.Host.Loops()))}
	for i, l := range o.opts.Host.Loops() {
		m.loops[i] = stream{loop: l, upTo: above}
	}
	p = &ConnectionPart{At: time.Now(), Rows: []Connection{}}
	if p.Next, err = m.run(ctx, o, p.At.Add(listWithin)); err != nil {
		return nil, err
	}
	for _, s := range m.rows {
		p.Rows = append(p.Rows, o.connection(s))
	}
	for i := range m.loops {
		p.Looked += m.loops[i].looked
	}
	err = o.read(ctx, func(c *direct.Caller) error {
		askHeld(c, p.Rows)
		return nil
	})
	if q.Holding {
		p.Rows = holding(p.Rows)
	}
	return p, err
}

// holding are those of the rows that hold jobs.
func holding(rows []Connection) []Connection {
	kept := rows[:0]
	for _, r := range rows {
		if r.Holds > 0 {
			kept = append(kept, r)
		}
	}
	return kept
}

// connection is a session with the name of its last command.
func (o *Operator) connection(p session.Snapshot) Connection {
	v := Connection{Snapshot: p}
	at := p.Last
	for _, f := range o.opts.Fronts {
		kinds := f.Kinds()
		if at >= 0 && at < len(kinds) {
			_, v.Command, _ = strings.Cut(kinds[at], "-") // which begins with the protocol
		}
		at -= len(kinds)
	}
	return v
}

// askHeld asks the shards how many jobs the connections hold.
func askHeld(c *direct.Caller, rows []Connection) {
	type ask struct {
		of   []int // rows
		list []core.Holder
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
			a.list = append(a.list, core.Holder{Client: p.Client, Conn: rows[i].Number})
		}
	}
	for shard, a := range asks {
		c.AskHolders(shard, a.list)
		for k, h := range a.list {
			r := &rows[a.of[k]]
			r.Holds += h.Held
			r.HeldFor = max(r.HeldFor, h.Oldest)
			r.Follows = r.Follows || h.Follows
		}
	}
}

// Connection is one of them, with the first of the jobs that it holds: those that it has held
// for longest.
func (o *Operator) Connection(ctx context.Context, number uint64) (v Connection, held []JobRow, err error) {
	if err := o.Ready(); err != nil {
		return v, nil, err
	}
	var p *session.Snapshot
	err = o.turn(ctx, number, func(s *session.Session) {
		if s != nil {
			shown := s.Snapshot(namesAll)
			p = &shown
		}
	})
	switch {
	case err != nil:
		return v, nil, err
	case p == nil:
		return v, nil, noConnection(number)
	}
	err = o.read(ctx, func(c *direct.Caller) error {
		rows := []Connection{o.connection(*p)}
		askHeld(c, rows)
		v, held = rows[0], heldJobs(c, p)
		return nil
	})
	return v, held, err
}

// KillConnection ends a connection as if it had broken: its jobs go back as those of a lost
// worker do, and its client sees it closed. It returns when that is done.
func (o *Operator) KillConnection(ctx context.Context, number uint64) (err error) {
	defer func() { o.deeds.count("kill", 0, 0, err) }()
	if err := o.Ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, killWithin)
	defer cancel()
	gone := make(chan struct{})
	found := false
	err = o.turn(ctx, number, func(s *session.Session) {
		if found = s != nil; found && ctx.Err() == nil { // else who asked was told that it was not done
			s.WhenGone(func() { close(gone) })
			s.Kill()
		}
	})
	if err != nil {
		return err
	}
	if !found {
		return noConnection(number)
	}
	if !o.await(ctx, gone) {
		return wire.Uncertain.With("", "the connection is closed, but what it last asked for is still under way",
			"look at it again: it is gone when that has ended")
	}
	return nil
}

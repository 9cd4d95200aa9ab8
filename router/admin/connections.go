package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	// killWithin is the timeout of KillConnection. The current operation of the connection must
	// end first, and may wait for the disk.
	killWithin = 5 * time.Second
	// heldShown is the largest number of reserved jobs shown of a connection.
	heldShown = 1000
	// namesShown is the largest number of watched tubes of a connection in a list, and namesAll
	// the largest number that Connection returns.
	namesShown = 16
	namesAll   = 1000
)

// A ConnectionQuery selects connections.
type ConnectionQuery struct {
	Protocol string // a Front's name; empty: any
	Tube     []byte // a tube that they use, watch or work for; nil: any
	Holding  bool   // only those with reserved jobs
	Limit    int
}

// wants reports whether to list a session. The caller must hold its loop, and must check again in
// the shards whether the session has reserved jobs.
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

// A Connection describes a connection for operators.
type Connection struct {
	session.Snapshot
	Command string    // the last command; empty: none
	Holds   uint32    // number of reserved jobs
	HeldFor core.Time // how long it has held the first of them
	Follows bool      // it waits for results of jobs
}

// State returns the state of the connection: idle, busy, waiting (for a job to reserve), sleeping
// (until the server notifies it of a job) or closing.
func (c *Connection) State() string {
	switch {
	case c.Life == session.Ready && c.Roles&session.Sleeper != 0:
		return "sleeping"
	case c.Life == session.Ready:
		return "idle"
	}
	return c.Life
}

// Waits reports whether the connection waits or sleeps since its last command.
func (c *Connection) Waits() bool {
	return c.Life == session.Waiting || c.Roles&session.Sleeper != 0
}

// Produces reports whether the connection has put a job.
func (c *Connection) Produces() bool { return c.Roles&session.Producer != 0 }

// Works reports whether the connection has tried to reserve a job.
func (c *Connection) Works() bool { return c.Roles&session.Worker != 0 }

// PeerName returns the client's address as text.
func (c *Connection) PeerName() string { return session.PeerName(c.Peer) }

// StoppedBy returns the reasons why the server does not read the connection's input.
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
	Looked int    // number of examined connections
	Next   uint64 // the next page begins above this number; zero: this is the last page
	At     time.Time
}

// noConnection returns the problem of a request for a connection that does not exist.
func noConnection(number uint64) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no connection %d, or it is closed", number))
}

// Connections lists connections with numbers after above, in the order of their numbers, which
// is the order in which they were accepted. A connection that is open from the first page to the
// last is on exactly one page. A page may be shorter than the limit.
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

// connection returns a session with the name of its last command.
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

// askHeld sets the fields of rows about reserved jobs, which only the shards know.
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

// heldJobs returns the jobs that a connection has reserved, without bodies. The jobs held for
// longest come first.
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

// Connection returns a connection, and the reserved jobs that it has held for longest.
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

// KillConnection closes a connection, and returns once it is closed. Its reserved jobs return to
// their tubes, as if the client had disconnected.
func (o *Operator) KillConnection(ctx context.Context, number uint64) (err error) {
	defer func() { o.counts.add("kill", 0, 0, err) }()
	if err := o.Ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, killWithin)
	defer cancel()
	gone := make(chan struct{})
	err = o.turn(ctx, number, func(s *session.Session) {
		if ctx.Err() == nil { // else the operator has already got an error
			s.WhenGone(func() { close(gone) })
			s.Kill()
		}
	})
	if err != nil {
		return err
	}
	if !o.await(ctx, gone) {
		return wire.Uncertain.With("", "the connection is being closed, but its last command is still running",
			"read the connection again: it does not exist any more once the command has ended")
	}
	return nil
}

// turn calls f in a turn of a session's loop, and waits for its end.
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

func loopsBusy() error { return wire.Busy.Problem("the event loops do not respond in time") }

// Limits of the work in one turn of a loop, which takes about 50 µs for any number of connections.
const (
	turnLooks = 256 // sessions to examine
	turnShows = 32  // sessions to list
	// showUnits is the cost of a listed session in the units of session.Loop: it needs a system
	// call for the address of its peer.
	showUnits = 4
)

// A loopPage has connections of one loop.
type loopPage struct {
	rows   []session.Snapshot // to list
	looked []uint64           // the numbers of all examined sessions
	upTo   uint64             // all sessions up to this number were examined
	done   chan struct{}      // closed when the loop has filled the page
}

// fill adds the next connections. The caller must hold the loop.
func (p *loopPage) fill(l *session.Loop, q *ConnectionQuery, above uint64) {
	for s := range l.Sessions(above) {
		l.Spend(1)
		p.looked = append(p.looked, s.Number())
		if q.wants(s) {
			p.rows = append(p.rows, s.Snapshot(namesShown))
			l.Spend(showUnits)
		}
		if len(p.looked) == turnLooks || len(p.rows) == turnShows {
			p.upTo = s.Number()
			return
		}
	}
	p.upTo = math.MaxUint64
}

// nextConnections returns the connections that q wants, with numbers after above and up to next,
// sorted by number. next is MaxUint64 at the end of the list. It examines a bounded number of
// connections of each loop, on all loops at the same time.
func (o *Operator) nextConnections(ctx context.Context, q *ConnectionQuery, above uint64) (rows []session.Snapshot, looked int, next uint64, err error) {
	loops := o.opts.Host.Loops()
	pages := make([]loopPage, len(loops))
	for i, l := range loops {
		p := &pages[i]
		p.done = make(chan struct{})
		l.Do(func() {
			p.fill(l, q, above)
			close(p.done)
		})
	}
	next = math.MaxUint64
	for i := range pages {
		if !o.await(ctx, pages[i].done) {
			return nil, 0, 0, loopsBusy()
		}
		next = min(next, pages[i].upTo)
	}
	for i := range pages {
		for _, r := range pages[i].rows {
			if r.Number <= next {
				rows = append(rows, r)
			}
		}
		for _, n := range pages[i].looked {
			if n <= next {
				looked++
			}
		}
	}
	slices.SortFunc(rows, func(a, b session.Snapshot) int { return cmp.Compare(a.Number, b.Number) })
	return rows, looked, next, nil
}

// peers returns the addresses of connections by number. Closed connections are missing. If the
// loops are late, more are missing, since the reply is useful without them.
func (o *Operator) peers(ctx context.Context, numbers []uint64) map[uint64]string {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	byLoop := make(map[*session.Loop][]uint64)
	for _, n := range numbers {
		if l := o.opts.Host.LoopOf(n); l != nil {
			byLoop[l] = append(byLoop[l], n)
		}
	}
	all := make(map[uint64]string)
	for l, list := range byLoop {
		for part := range slices.Chunk(list, turnShows) {
			got := make(map[uint64]string)
			done := make(chan struct{})
			l.Do(func() {
				for _, n := range part {
					if s := l.Session(n); s != nil {
						got[n] = session.PeerName(s.Peer())
						l.Spend(showUnits)
					}
				}
				close(done)
			})
			if !o.await(ctx, done) {
				return all
			}
			maps.Copy(all, got)
		}
	}
	return all
}

package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
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

// connectionState returns the state of a connection, as wire.Connection has it.
func connectionState(p *session.Snapshot) string {
	switch {
	case p.Life == session.Ready && p.Roles&session.Sleeper != 0:
		return "sleeping"
	case p.Life == session.Ready:
		return "idle"
	}
	return p.Life
}

// stoppedBy returns the reasons why the server does not read the connection's input.
func stoppedBy(stops session.Stops) []string {
	names := []string{}
	for _, s := range []struct {
		stop session.Stops
		name string
	}{
		{session.Unread, "unread_replies"}, {session.Uncommitted, "replies_not_durable"},
		{session.NoSpace, "no_space_on_disk"}, {session.NoPlace, "other_large_bodies"}, {session.Throttled, "identity_rate"},
	} {
		if stops&s.stop != 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// noConnection returns the problem of a request for a connection that does not exist.
func noConnection(number uint64) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no connection %d, or it is closed", number))
}

// Connections lists connections with numbers after above, in the order of their numbers, which
// is the order in which they were accepted. A connection that is open from the first page to the
// last is on exactly one page. A page may be shorter than the limit.
func (o *Operator) Connections(ctx context.Context, q *ConnectionQuery, above uint64) (*wire.ConnectionList, error) {
	if err := o.Ready(); err != nil {
		return nil, err
	}
	at := time.Now()
	p := &wire.ConnectionList{AsOf: at.UTC(), Connections: []wire.Connection{}}
	var all []session.Snapshot
	for more := true; more; {
		start := time.Now()
		rows, looked, next, err := o.nextConnections(ctx, q, above)
		if err != nil {
			return nil, err
		}
		p.Looked += looked
		if left := q.Limit - len(all); len(rows) > left {
			rows = rows[:left]
			next = rows[left-1].Number
		}
		all = append(all, rows...)
		if next == math.MaxUint64 {
			break
		}
		above = next
		if more = len(all) < q.Limit && time.Since(at) < listWithin; more {
			o.rest(start)
		} else {
			p.Next = strconv.FormatUint(next, 10)
		}
	}
	err := o.read(ctx, func(c *direct.Caller) error {
		p.Connections = o.connections(c, all, at)
		return nil
	})
	if q.Holding {
		p.Connections = slices.DeleteFunc(p.Connections, func(r wire.Connection) bool { return r.Holding == 0 })
	}
	return p, err
}

// connections returns sessions in the form of the API.
func (o *Operator) connections(c *direct.Caller, all []session.Snapshot, at time.Time) []wire.Connection {
	list := make([]wire.Connection, len(all))
	for i := range all {
		list[i] = o.connection(&all[i], at)
	}
	askHeld(c, all, list)
	return list
}

// connection returns a session in the form of the API, without what only the shards know.
func (o *Operator) connection(p *session.Snapshot, at time.Time) wire.Connection {
	v := wire.Connection{
		ID: p.Number, Protocol: p.Front.Name(), Peer: session.PeerName(p.Peer), TLS: p.TLS, ClientID: wire.ShownName(p.Client.ID),
		Opened: at.Add(-time.Duration(p.Open)).UTC().Truncate(time.Millisecond), OpenSeconds: seconds(p.Open),
		State: connectionState(p), StoppedBy: stoppedBy(p.Stops),
		Producer: p.Roles&session.Producer != 0, Worker: p.Roles&session.Worker != 0,
		Watched: make([]wire.TubeName, 0, len(p.Client.Watched)), Watching: p.Client.Watching,
		CommandSeconds: seconds(p.Idle),
		ReceivedBytes:  p.In, SentBytes: p.Out, HeldBytes: p.Held, UnsentBytes: p.Unsent,
	}
	if p.Life == session.Waiting || p.Roles&session.Sleeper != 0 {
		v.WaitSeconds = seconds(p.Idle)
	}
	if p.Client.Used != "" {
		used := wire.NameOf(p.Client.Used)
		v.Used = &used
	}
	for _, name := range p.Client.Watched {
		v.Watched = append(v.Watched, wire.NameOf(name))
	}
	kind := p.Last
	for _, f := range o.opts.Fronts {
		kinds := f.Kinds()
		if kind >= 0 && kind < len(kinds) {
			_, v.Command, _ = strings.Cut(kinds[kind], "-") // the prefix is the protocol
		}
		kind -= len(kinds)
	}
	return v
}

// askHeld sets the members of list about reserved jobs, which only the shards know.
func askHeld(c *direct.Caller, all []session.Snapshot, list []wire.Connection) {
	type ask struct {
		of []int // rows
		x  core.OperatorOp
	}
	asks := make(map[int]*ask)
	for i := range all {
		for _, p := range all[i].Client.Places {
			a := asks[p.Shard]
			if a == nil {
				a = new(ask)
				asks[p.Shard] = a
			}
			a.of = append(a.of, i)
			a.x.Holders = append(a.x.Holders, core.Holder{Client: p.Client, Conn: all[i].Number})
		}
	}
	for shard, a := range asks {
		for more := true; more; {
			c.Op().AskHolders(&a.x)
			more = c.Do(shard).Status == core.StatusMore
		}
		for k, h := range a.x.Holders {
			r := &list[a.of[k]]
			r.Holding += h.Held
			r.HoldSeconds = max(r.HoldSeconds, seconds(h.Oldest))
			r.Awaits = r.Awaits || h.Follows
		}
	}
}

// heldJobs returns the jobs that a connection has reserved, without bodies. The jobs held for
// longest come first.
func heldJobs(c *direct.Caller, p *session.Snapshot) []wire.Job {
	var jobs []core.JobRow
	for _, place := range p.Client.Places {
		x := core.OperatorOp{Limit: heldShown}
		for more := true; more && len(x.Jobs) < heldShown; {
			c.Op().ListHeld(place.Client, p.Number, &x)
			more = c.Do(place.Shard).Status == core.StatusMore
		}
		jobs = append(jobs, x.Jobs...)
	}
	slices.SortStableFunc(jobs, func(a, b core.JobRow) int { return cmp.Compare(b.InState, a.InState) })
	held := []wire.Job{}
	for i := range min(len(jobs), heldShown) {
		row := JobRow{JobRow: jobs[i], Peer: session.PeerName(p.Peer)}
		held = append(held, row.Value())
	}
	return held
}

// TokenRefused counts and logs a token of an HTTP client that the access file does not have.
func (o *Operator) TokenRefused(client string) {
	o.opts.Host.CountRejection(session.RejectedToken)
	o.opts.Host.Complain("refused a token that is not in the access file", "conn", client)
}

// Connection returns a connection, and the reserved jobs that it has held for longest.
func (o *Operator) Connection(ctx context.Context, number uint64) (v wire.ConnectionJobs, err error) {
	if err := o.Ready(); err != nil {
		return v, err
	}
	all := make([]session.Snapshot, 1)
	err = o.turn(ctx, number, func(s *session.Session) { all[0] = s.Snapshot(namesAll) })
	if err != nil {
		return v, err
	}
	err = o.read(ctx, func(c *direct.Caller) error {
		v.Connection, v.Jobs = o.connections(c, all, time.Now())[0], heldJobs(c, &all[0])
		return nil
	})
	return v, err
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

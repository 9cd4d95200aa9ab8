package session

import (
	"math/bits"
	"net"
	"sync/atomic"

	"polystalk/router/access"
	"polystalk/router/ops"
	"polystalk/shard/core"
)

// A Counter is counted by a loop without atomics, and published once per callback of the event
// loop.
type Counter int

// The counters of a loop.
const (
	CountReceived Counter = iota // bytes received from connections
	CountSent                    // bytes of replies that sockets took
	CountDeferred                // turns deferred for the turns of other connections
	CountBehind                  // times that a socket took only a part, and the rest began to wait
	CountPauses                  // times that reading was paused because too much input was held
	CountVisits                  // times that a shard was acquired
	CountBusy                    // times that another goroutine owned a shard
	CountLeft                    // operations left in the inbox of a busy shard
	CountIDAdds                  // writes of puts to the counter of ids, which all loops share
	NumCounters
)

// counters holds a loop's Counters: the current values, and the published ones.
type counters struct {
	own   [NumCounters]uint64
	shown [NumCounters]atomic.Uint64
}

// Count adds n to a counter. The caller must hold the loop.
func (l *Loop) Count(c Counter, n uint64) { l.counters.own[c] += n }

// show publishes changed counters. Only the loop's holder calls it, so load and store need not
// be one atomic step.
func (l *Loop) show() {
	b, c := &l.batch, &l.counters
	c.own[CountVisits], c.own[CountBusy], c.own[CountLeft] = b.Visits, b.Busy, b.Sent
	for i, n := range c.own {
		if c.shown[i].Load() != n {
			c.shown[i].Store(n)
		}
	}
}

// counts holds a loop's statistics that other goroutines read. Only the loop's holder writes,
// so the cache lines stay with its core.
type counts struct {
	roles    [numRoles]atomic.Int64
	fronts   [frontsMax]frontCounts
	commands []atomic.Uint64 // by Host.Base plus kind
	errors   []atomic.Uint64 // by Host.Base plus error
}

// frontCounts counts the connections of one front.
type frontCounts struct {
	open     atomic.Int64
	accepted atomic.Uint64
}

// role returns the counter of a role.
func (c *counts) role(r roles) *atomic.Int64 { return &c.roles[bits.TrailingZeros8(uint8(r))] }

// CountError counts an error reply. i is the result of Host.Base plus the index in
// Front.Errors.
func (l *Loop) CountError(i int) { l.counts.errors[i].Add(1) }

// A Rejection is the reason why a client was not served.
type Rejection int

// The reasons.
const (
	RejectedLimit    Rejection = iota // the connection limit was reached
	RejectedLost                      // a system call failed after the connection was accepted
	RejectedForeign                   // it spoke HTTP or TLS to a port of another protocol
	RejectedToken                     // its token was refused
	RejectedUnproven                  // it has no right, and did not authenticate
	RejectedQuota                     // its identity has too many connections
	RejectedHeader                    // its balancer sent no header of the PROXY protocol
	NumRejections
)

// String returns the reason's name in metrics.
func (r Rejection) String() string {
	return [...]string{"limit", "lost", "foreign", "token", "unauthorized", "quota", "balancer"}[r]
}

// CountRejection counts a client that was not served. Any goroutine may call it.
func (h *Host) CountRejection(r Rejection) { h.rejected[r].Add(1) }

// Sums has the sums of the counts of all loops, which are read one after the other.
type Sums struct {
	Connections, Producers, Workers, Waiting int64
	Sleeping                                 int64 // Gearman workers that wait for a NOOP
	TotalConnections                         uint64
	Fronts                                   []FrontSums // fronts that ever had a connection
	Rejected                                 [NumRejections]uint64
	Commands                                 []uint64 // by the argument of Session.Count
	Errors                                   []uint64 // by the argument of Loop.CountError
	Counters                                 [NumCounters]uint64
}

// FrontSums counts the connections of one protocol.
type FrontSums struct {
	Front    Front
	Open     int64
	Accepted uint64
}

// Sums adds up the counts of all loops. Any goroutine may call it; it does not wait for a loop.
func (h *Host) Sums() *Sums {
	n := &Sums{Commands: make([]uint64, h.kinds), Errors: make([]uint64, h.errors)}
	for _, f := range *h.fronts.Load() {
		n.Fronts = append(n.Fronts, FrontSums{Front: f})
	}
	for i := range n.Rejected {
		n.Rejected[i] = h.rejected[i].Load()
	}
	for _, l := range h.Loops() {
		c := &l.counts
		for i := range n.Fronts {
			f, open, accepted := &n.Fronts[i], c.fronts[i].open.Load(), c.fronts[i].accepted.Load()
			f.Open += open
			f.Accepted += accepted
			n.Connections += open
			n.TotalConnections += accepted
		}
		n.Producers += c.role(Producer).Load()
		n.Workers += c.role(Worker).Load()
		n.Sleeping += c.role(Sleeper).Load()
		n.Waiting += c.role(waits).Load()
		for i := range c.commands {
			n.Commands[i] += c.commands[i].Load()
		}
		for i := range c.errors {
			n.Errors[i] += c.errors[i].Load()
		}
		for i := range n.Counters {
			n.Counters[i] += l.counters.shown[i].Load()
		}
	}
	return n
}

// activity is a session's data for operators. Updating it costs one or two stores per command.
type activity struct {
	number  uint64    // unique among all sessions of the process; never zero
	since   core.Time // when it was opened
	last    uint64    // its last command: kind+1 in the low kindBits, its time above; zero: none
	in, out uint64    // bytes received, and bytes of replies
}

// The time in activity.last is in units of 2^20 ns, about a millisecond.
const (
	kindBits = 16
	lastUnit = 20
)

// Count counts a command of the session. kind is the result of Host.Base plus the index in
// Front.Kinds.
func (s *Session) Count(kind int) {
	l := s.loop
	l.counts.commands[kind].Add(1)
	s.activity.last = uint64(l.batch.Now)>>lastUnit<<kindBits | uint64(kind+1)
}

// lastCommand returns the kind of the session's last command, and its time. kind is -1 if
// there was none.
func (a *activity) lastCommand() (kind int, at core.Time) {
	return int(a.last&(1<<kindBits-1)) - 1, core.Time(a.last >> kindBits << lastUnit)
}

// Number returns the session's number, unique in the process.
func (s *Session) Number() uint64 { return s.activity.number }

// Peer returns the address of the other end, nil if it is unknown. The caller must hold the
// loop.
func (s *Session) Peer() net.Addr { return PeerOf(s.conn) }

// A Snapshot is a copy of a session's data for operators.
type Snapshot struct {
	Number uint64
	Front  Front
	Peer   net.Addr // nil: unknown
	TLS    bool     // the client uses TLS; false if it uses TLS with another server, which forwards

	Life  string // Ready, busy, Waiting or closing
	Stops Stops
	Roles roles

	Open core.Time // its age
	Last int       // the kind of its last command, as in Session.Count; -1: there was none
	Idle core.Time // the time since its last command, to a millisecond

	In, Out      uint64 // bytes received, and bytes of replies
	Held, Unsent int    // received bytes not used yet, and bytes of replies not sent yet

	Client Client
	Access *access.Credential // nil: there is no access file
}

// Two values of Snapshot.Life.
var (
	Ready   = ready.String()
	Waiting = waiting.String()
)

// A Client is a protocol's data about the client of a connection.
type Client struct {
	ID       string   // the name that it has given itself; empty: none
	Used     string   // the tube into which it puts
	Watched  []string // the first tubes that it watches, or functions that it works for
	Watching int      // the total number of them
	Places   []Place
}

// A Place is a client as one shard knows it.
type Place struct {
	Shard  int
	Client core.ClientID
	Held   uint32 // jobs that it has reserved there, by the last reply: too high after a timeout

	Watching int  // tubes that it watches there, or functions that it works for
	Waiting  bool // its reserve waits there
}

// PlacesOf returns the places of the client with these handles.
func PlacesOf(h *ops.Handles) (list []Place) {
	for i := range h.Len() {
		k := h.At(i)
		list = append(list, Place{k.Shard(), k.Client, k.Held, int(k.Watching), k.Waiting})
	}
	return list
}

// A teller is a protocol with data about its client. The caller must hold the loop.
type teller interface {
	// Tell fills c, with the names of at most names tubes.
	Tell(c *Client, names int)
	// Knows reports whether the client uses or watches the tube, or works for the function.
	Knows(tube []byte) bool
	// Holds reports whether the client has reserved jobs; they may have timed out since.
	Holds() bool
}

// Snapshot returns a Snapshot of the session, with the names of at most names tubes. The
// caller must hold the loop.
func (s *Session) Snapshot(names int) Snapshot {
	a, now := &s.activity, s.loop.batch.Now
	p := Snapshot{
		Number: a.number, Front: s.Front(), Peer: PeerOf(s.conn),
		Life: s.life.String(), Stops: s.stops, Roles: s.roles &^ waits,
		Open: now - a.since, In: a.in, Out: a.out, Held: s.held(), Unsent: s.Unsent(), Access: s.access,
	}
	if e, ok := s.conn.(encrypted); ok {
		p.TLS, _ = e.TLS()
	}
	var at core.Time
	if p.Last, at = a.lastCommand(); p.Last >= 0 {
		p.Idle = min(now-at, p.Open)
	}
	if t := s.Teller(); t != nil {
		t.Tell(&p.Client, names)
	}
	return p
}

// Teller returns the session's protocol as a teller, or nil if it is none.
func (s *Session) Teller() teller {
	t, _ := s.proto.(teller)
	return t
}

// A LoopView is a loop's state for tests.
type LoopView struct {
	Queued, Corked int // sessions in the queue, and with corked replies
	Holders        int // sessions with memory in the account
	Untold         int // bytes not yet added to the account
	Unfinished     int // operations, turns and output under way, except replies that wait
}

// View returns the loop's state. The caller must hold it.
func (l *Loop) View() LoopView {
	v := LoopView{Queued: l.queue.len(), Corked: len(l.corks.list), Holders: len(l.holders.list), Untold: l.holders.change}
	v.Unfinished = int(l.unfinished.Load()) - len(l.gate.replies) - min(1, v.Corked) + len(l.batch.Local) + l.answer.len() + len(l.out)
	return v
}

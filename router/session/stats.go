package session

import (
	"net"
	"sync/atomic"

	"polystalk/router/ops"
	"polystalk/shard/core"
)

// A Counter is a figure that a loop counts without atomics, and publishes once per callback
// of the event loop.
type Counter int

// The counters of a loop.
const (
	CountReceived Counter = iota // bytes that connections brought
	CountSent                    // bytes of replies that sockets took
	CountDeferred                // turns put off, so that other connections had theirs
	CountBehind                  // times that a socket did not take all, and the rest began to wait
	CountPauses                  // times that a connection was no longer read because it got ahead
	CountVisits                  // times that a shard was taken
	CountBusy                    // times that a shard was found owned by another
	CountLeft                    // operations left in the inbox of a busy shard
	CountIDAdds                  // times that a put wrote the counter of ids, which all loops share
	NumCounters
)

// counters are a loop's figures, as it counts them and as of the end of its last callback.
type counters struct {
	own   [NumCounters]uint64
	shown [NumCounters]atomic.Uint64
}

// Count counts n more. The caller must hold the loop.
func (l *Loop) Count(c Counter, n uint64) { l.counters.own[c] += n }

// show publishes what has changed. Only the loop's holder calls it, so the load and the
// store need not be one step.
func (l *Loop) show() {
	b, c := &l.batch, &l.counters
	c.own[CountVisits], c.own[CountBusy], c.own[CountLeft] = b.Visits, b.Busy, b.Sent
	for i, n := range c.own {
		if c.shown[i].Load() != n {
			c.shown[i].Store(n)
		}
	}
}

// counts are what other goroutines read of a loop, for statistics. Only the loop's holder
// writes, so its cache lines stay with its core.
type counts struct {
	producers, workers, sleepers, waiting atomic.Int64
	fronts                                [frontsMax]frontCounts
	commands                              []atomic.Uint64 // by Front base and kind
	errors                                []atomic.Uint64 // by Front error base and error
}

// frontCounts are of the connections of one front.
type frontCounts struct {
	open     atomic.Int64
	accepted atomic.Uint64
}

// countRole counts one session more, or fewer, in a role.
func (l *Loop) countRole(r roles, n int64) {
	switch r {
	case Producer:
		l.counts.producers.Add(n)
	case Worker:
		l.counts.workers.Add(n)
	case Sleeper:
		l.counts.sleepers.Add(n)
	case waits:
		l.counts.waiting.Add(n)
	}
}

// CountError counts a command that was answered by an error: the result of Host.ErrorBase
// and the index among its Front's errors.
func (l *Loop) CountError(i int) { l.counts.errors[i].Add(1) }

// A Rejection is why a client was not served.
type Rejection int

// The reasons.
const (
	RejectedLimit   Rejection = iota // the limit of connections was reached
	RejectedLost                     // the system refused to hand the connection over
	RejectedForeign                  // it spoke HTTP or TLS to a queue's port
	NumRejections
)

// String returns the reason's name in metrics.
func (r Rejection) String() string { return [...]string{"limit", "lost", "foreign"}[r] }

// CountRejection counts a client that was not served; from any goroutine.
func (h *Host) CountRejection(r Rejection) { h.rejected[r].Add(1) }

// Sums are what all loops have counted. Figures are not all of one moment.
type Sums struct {
	Connections, Producers, Workers, Waiting int64
	Sleeping                                 int64 // Gearman workers that wait for a NOOP
	TotalConnections                         uint64
	Fronts                                   []FrontSums // those that ever had a connection
	Rejected                                 [NumRejections]uint64
	Commands                                 []uint64 // as of Session.Count
	Errors                                   []uint64 // as of Loop.CountError
	Counters                                 [NumCounters]uint64
}

// FrontSums are the connections of one protocol.
type FrontSums struct {
	Front    Front
	Open     int64
	Accepted uint64
}

// Sums adds up what the loops have counted; from any goroutine, without disturbing a loop.
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
		n.Producers += c.producers.Load()
		n.Workers += c.workers.Load()
		n.Sleeping += c.sleepers.Load()
		n.Waiting += c.waiting.Load()
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

// activity is what operators are shown of a session, noted at a store or two a command.
type activity struct {
	number  uint64    // unique among all sessions of the process; never zero
	since   core.Time // when it was opened
	last    uint64    // its last command: the kind in kindBits, and its time above them; zero: none
	in, out uint64    // bytes received, and said
}

// The time in activity.last is in units of 2^20 ns, about a millisecond.
const (
	kindBits = 16
	lastUnit = 20
)

// Count counts a command of the session: the result of Host.Base and the index among its
// Front's kinds.
func (s *Session) Count(kind int) {
	l := s.loop
	l.counts.commands[kind].Add(1)
	s.activity.last = uint64(l.batch.Now)>>lastUnit<<kindBits | uint64(kind+1)
}

// lastCommand returns the kind of the session's last command, and its time; -1: there was
// none.
func (a *activity) lastCommand() (kind int, at core.Time) {
	return int(a.last&(1<<kindBits-1)) - 1, core.Time(a.last >> kindBits << lastUnit)
}

// Number returns the session's number, unique in the process.
func (s *Session) Number() uint64 { return s.activity.number }

// Peer returns the address of the other end, nil if it is unknown. The caller must hold the
// loop.
func (s *Session) Peer() net.Addr { return PeerOf(s.conn) }

// A Snapshot is a copy of what operators see of a session at a moment.
type Snapshot struct {
	Number uint64
	Front  Front
	Peer   net.Addr // nil: unknown

	Life  string // Ready, busy, Waiting or closing
	Stops Stops
	Roles roles

	Open core.Time // its age
	Last int       // the kind of its last command, as it was counted; -1: there was none
	Idle core.Time // how long ago that came, to a millisecond

	In, Out      uint64 // bytes received, and said
	Held, Unsent int    // bytes of those that are not used yet, and that have not left

	Client Client
}

// Lives of a Snapshot.
var (
	Ready   = ready.String()
	Waiting = waiting.String()
)

// A Client is what a protocol tells of the other end of a connection.
type Client struct {
	ID       string   // its own name for itself; empty: none
	Used     string   // the tube into which it puts
	Watched  []string // the first tubes that it watches, or functions that it works for
	Watching int      // how many those are in all
	Places   []place
}

// A place is a client as one shard knows it.
type place struct {
	Shard  int
	Client core.ClientID
	Held   uint32 // jobs that it has reserved there, as last heard: too high after a timeout
}

// PlacesOf returns the places of the client with these handles.
func PlacesOf(h *ops.Handles) (list []place) {
	for i := range h.Len() {
		k := h.At(i)
		list = append(list, place{k.Shard(), k.Client, k.Held})
	}
	return list
}

// A teller is a Protocol that tells operators of its client. The caller must hold the loop.
type teller interface {
	// Tell fills a Client in, with the names of at most names tubes.
	Tell(c *Client, names int)
	// Knows reports whether the client uses or watches the tube, or works for the function.
	Knows(tube []byte) bool
	// Holds reports whether it may have jobs reserved: it has unless they timed out.
	Holds() bool
}

// Snapshot copies what operators see of the session, with the names of at most names tubes.
// The caller must hold the loop.
func (s *Session) Snapshot(names int) Snapshot {
	a, now := &s.activity, s.loop.batch.Now
	p := Snapshot{
		Number: a.number, Front: s.Front(), Peer: PeerOf(s.conn),
		Life: s.life.String(), Stops: s.stops, Roles: s.roles &^ waits,
		Open: now - a.since, In: a.in, Out: a.out, Held: s.held(), Unsent: s.Unsent(),
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

// teller tells of the session's client, nil if its protocol does not.
func (s *Session) Teller() teller {
	t, _ := s.proto.(teller)
	return t
}

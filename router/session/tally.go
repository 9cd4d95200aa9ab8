package session

import "sync/atomic"

// A Tally is what a loop counts for itself, without atomics, and publishes once per
// callback of the event loop.
type Tally int

// The tallies of a loop.
const (
	TallyInputs   Tally = iota // times that a connection brought bytes
	TallyReceived              // bytes that connections brought
	TallyWrites                // system calls that wrote replies
	TallySent                  // bytes of replies that sockets took
	TallyDeferred              // turns put off, so that other connections had theirs
	TallyBehind                // times that a socket did not take all, and the rest began to wait
	TallyPauses                // times that a connection was no longer read because it got ahead
	TallyHelps                 // times that others did an idle loop's turn
	TallyVisits                // times that a shard was taken
	TallyBusy                  // times that a shard was found owned by another
	TallyLeft                  // operations left in the inbox of a busy shard
	tallyHelped                // operations of others that a loop ran from an inbox
	TallyIDAdds                // times that a put wrote the counter of ids, which all loops share
	tallyEndAdds               // times that a loop wrote how many ids of a page have ended
	NumTallies
)

// tallyNames are the names of the tallies as counters, summed over all loops.
var tallyNames = [NumTallies]string{
	TallyInputs:   "inputs",
	TallyReceived: "received-bytes",
	TallyWrites:   "writes",
	TallySent:     "sent-bytes",
	TallyDeferred: "turns-deferred",
	TallyBehind:   "behind",
	TallyPauses:   "pauses",
	TallyHelps:    "helps",
	TallyVisits:   "shard-visits",
	TallyBusy:     "shard-busy",
	TallyLeft:     "inbox-sent",
	tallyHelped:   "inbox-helped",
	TallyIDAdds:   "id-adds",
	tallyEndAdds:  "end-adds",
}

// String is the tally's name as a counter.
func (t Tally) String() string { return tallyNames[t] }

// tallies are a loop's, as it counts them and as of the end of its last callback.
type tallies struct {
	own   [NumTallies]uint64
	shown [NumTallies]atomic.Uint64
}

// Tally counts n more; for who has the loop.
func (l *Loop) Tally(t Tally, n uint64) { l.tallies.own[t] += n }

// show publishes what has changed. Only the loop calls it, so the load and the store need
// not be one step.
func (l *Loop) show() {
	b, t := &l.batch, &l.tallies
	t.own[TallyVisits], t.own[TallyBusy] = b.Visits, b.Busy
	t.own[TallyLeft], t.own[tallyHelped] = b.Sent, b.Helped
	t.own[tallyEndAdds] = l.Ended.Adds()
	for i, n := range t.own {
		if t.shown[i].Load() != n {
			t.shown[i].Store(n)
		}
	}
}

// counts are what other loops read of a loop, for statistics. Only the loop writes, so
// its lines stay with its core.
type counts struct {
	producers, workers, sleepers, waiting atomic.Int64
	fronts                                [frontsMax]frontCounts
	commands                              []atomic.Uint64 // by Front base and kind
	errors                                []atomic.Uint64 // by what Host.ErrorBase gave and error
}

// frontCounts are of the connections of one front.
type frontCounts struct {
	open     atomic.Int64
	accepted atomic.Uint64
}

// countRole counts one session more, or fewer, in a role.
func (l *Loop) countRole(r Roles, n int64) {
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

// CountError counts a command that was answered by an error: its index among its Front's
// errors behind what Host.ErrorBase gives.
func (l *Loop) CountError(i int) { l.counts.errors[i].Add(1) }

// Sums are what all loops have counted. Figures are not all of one moment.
type Sums struct {
	Connections, Producers, Workers, Waiting int64
	Sleeping                                 int64 // Gearman's workers that wait to be told of a job
	TotalConnections                         uint64
	Fronts                                   []FrontSums // of which there ever was a connection
	Rejected                                 [NumRejections]uint64
	Commands                                 []uint64 // as of Session.Count
	Errors                                   []uint64 // as of Loop.CountError
	Tallies                                  [NumTallies]uint64
}

// FrontSums are the connections of one protocol.
type FrontSums struct {
	Front    Front
	Open     int64
	Accepted uint64
}

// Sums adds up what the loops have counted; from any goroutine, without disturbing one.
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
		for i := range n.Tallies {
			n.Tallies[i] += l.tallies.shown[i].Load()
		}
	}
	return n
}

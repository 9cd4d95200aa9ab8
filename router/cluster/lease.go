package cluster

import (
	"encoding/binary"
	"time"

	"polystalk/shard/commit"
)

// A lease is the time until which no other node can lead.
//
// At each tick the leader asks the others whether it still leads. The servers that answer have heard
// of the leader after it asked, and vote for no other for an election timeout: see Machine.quiet. So
// the lease begins at the question. It is shorter than the timeout for two reasons: the others count
// the timeout in ticks, and the first tick may come right after the question; and clocks run at
// different rates.
//
// After a leader has told a voter to campaign, the others may vote for it at any time, and the
// message may arrive late. So the leader has no lease for the rest of the term, even if the voter
// never leads.
type lease struct {
	length time.Duration
	next   uint64        // number of the next round
	asked  []round       // unanswered rounds, oldest first
	until  time.Duration // on the Machine's clock; zero: no lease
	off    bool          // there is no lease in this term
}

// A round is one question to the others.
type round struct {
	number uint64
	at     time.Duration
}

// roundsMax bounds the unanswered questions. A leader without answers steps down long before.
const roundsMax = 64

// ask begins a round, and returns the context that its answers carry.
func (l *lease) ask(now time.Duration) []byte {
	if len(l.asked) == roundsMax {
		l.asked = l.asked[1:]
	}
	l.next++
	l.asked = append(l.asked, round{l.next, now})
	return binary.LittleEndian.AppendUint64(nil, l.next)
}

// answered records that a majority has answered a round.
func (l *lease) answered(context []byte) {
	if len(context) != 8 || l.off {
		return
	}
	number := binary.LittleEndian.Uint64(context)
	for len(l.asked) > 0 && l.asked[0].number <= number {
		if l.asked[0].number == number {
			l.until = l.asked[0].at + l.length
		}
		l.asked = l.asked[1:]
	}
}

// end ends the lease until the node leads in another term.
func (l *lease) end() { l.asked, l.until, l.off = nil, 0, true }

// begin begins a term in which this node leads.
func (l *lease) begin() { l.asked, l.until, l.off = nil, 0, false }

// leased reports whether no other node can lead at the time now.
func (e *engine) leased(now time.Duration) bool { return int64(now) < e.leaseUntil.Load() }

// Leased reports whether no other node can lead now. It is safe for concurrent use.
func (n *Node) Leased() bool { return n.engine.leased(n.now()) }

// LeaseFence returns the commit that every reply of a leader must wait for; zero: none, because n
// holds a lease. Without a lease, or while n is nil, another node may lead already. Then a reply waits
// for a commit after every commit that has begun, which only the real leader can complete. It is safe
// for concurrent use.
func LeaseFence(n *Node, j *commit.Journal) uint64 {
	if n != nil && n.Leased() {
		return 0
	}
	fence := j.Begun() + 1
	j.Wake()
	return fence
}

package cluster

import (
	"encoding/binary"
	"time"
)

// A lease is until when this node may take it that no other leads.
//
// In each tick the leader asks the others whether it still leads. A majority that says so had
// heard of it after it asked, and none of those votes for another within an election timeout
// from then: see Machine.quiet. So the lease counts from when it asked. It is shorter than
// that timeout because the last of the others' ticks may come right behind what they heard,
// and because clocks do not run alike.
//
// A leader that tells a voter to campaign has the others vote whatever they have heard, and the
// message may arrive late. So the leader has no lease from then on in that term, even if the voter
// never leads.
type lease struct {
	length time.Duration
	next   uint64        // the number of the next round
	asked  []round       // rounds that are not answered, oldest first
	until  time.Duration // on the Machine's clock; zero: there is none
	off    bool          // there will be none in this term
}

// A round is one question to the others.
type round struct {
	number uint64
	at     time.Duration
}

// roundsMax is how many unanswered questions are remembered: the leader steps down long
// before, because nobody answers.
const roundsMax = 64

// ask begins a round, and gives what is to come back with its answers.
func (l *lease) ask(now time.Duration) []byte {
	if len(l.asked) == roundsMax {
		l.asked = l.asked[1:]
	}
	l.next++
	l.asked = append(l.asked, round{l.next, now})
	return binary.LittleEndian.AppendUint64(nil, l.next)
}

// answered takes in that a majority has answered a round.
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

// end takes the lease away until the node leads in another term, in which begin is called.
func (l *lease) end() { l.asked, l.until, l.off = nil, 0, true }

// begin is the beginning of a term in which this node leads.
func (l *lease) begin() { l.asked, l.until, l.off = nil, 0, false }

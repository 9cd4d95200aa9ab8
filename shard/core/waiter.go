package core

import "sync/atomic"

// A Waiter is the one word that shards share about a client: who serves its
// waiting reserve. The session arms it and hands the sequence number to every
// shard it waits in; the shard that wins the compare-and-swap owns Msg until
// the session has taken it back from its Home.
//
// A wait in one shard is open at once. One in several shards is closed until the
// client is in the queues of all of them: with a job from the first, it might get
// one that is not the best, or one for which it did not have to wait. A shard that
// has something for a closed wait does not serve it but calls, and gives the job to
// the next in the queue or keeps it. The session opens the wait, unless it was
// called; then it looks around again.
//
//	ArmClosed -> closed ------ Open ------> open -- Claim, offer -> claimed
//	               |  ^                      ^
//	         offer |  | Reset                | Arm
//	               v  |
//	              called        (Take: closed or called -> claimed)
type Waiter struct {
	word  atomic.Uint64 // sequence number << 2 | state
	Guard Guard
	Msg   Message
}

// What the two low bits of Waiter.word say.
const (
	waitOpen uint64 = iota
	waitClaimed
	waitClosed
	waitCalled
)

func waitWord(seq, state uint64) uint64 { return seq<<2 | state }

// A Guard knows what a client has seen of the other shards. A core asks it, owned,
// before it serves a reserve that is Multi.
type Guard interface {
	// Stands reports whether there was a moment since the shard is owned at which
	// none of the other shards had a job for the client that goes before k; MaxKey
	// asks for no job at all. It does not block, and its work is bounded: not true
	// may also mean that it cannot tell.
	Stands(k Key) bool
}

func (w *Waiter) stands(k Key) bool { return w.Guard == nil || w.Guard.Stands(k) }

func (w *Waiter) arm(state uint64) uint64 {
	seq := w.word.Load()>>2 + 1
	w.word.Store(waitWord(seq, state))
	return seq
}

// Arm begins a wait and returns its number. Only the session calls it, when
// no wait is pending.
func (w *Waiter) Arm() uint64 { return w.arm(waitOpen) }

// ArmClosed is Arm for a wait in several shards.
func (w *Waiter) ArmClosed() uint64 { return w.arm(waitClosed) }

// Open has the closed wait seq served from now on. It reports false when a shard
// has called: the wait is still closed.
func (w *Waiter) Open(seq uint64) bool {
	return w.word.CompareAndSwap(waitWord(seq, waitClosed), waitWord(seq, waitOpen))
}

// Reset has the closed wait seq uncalled, before the session looks around again.
func (w *Waiter) Reset(seq uint64) {
	w.word.CompareAndSwap(waitWord(seq, waitCalled), waitWord(seq, waitClosed))
}

// Take ends the wait seq, which is closed, on behalf of its own session.
func (w *Waiter) Take(seq uint64) {
	if seq != 0 {
		w.word.Store(waitWord(seq, waitClaimed)) // the last of shards' calls does not matter any more
	}
}

// Claim wins or loses the open wait seq: exactly one caller ever wins it.
func (w *Waiter) Claim(seq uint64) bool {
	return w.word.CompareAndSwap(waitWord(seq, waitOpen), waitWord(seq, waitClaimed))
}

// An offer's outcome.
type offered uint8

const (
	offerWon  offered = iota // the wait is the offering shard's to end
	offerHeld                // it is closed; its session will see that there was something
	offerLost                // it is over
)

// offer claims the wait seq if it is open, and calls if it is closed.
func (w *Waiter) offer(seq uint64) offered {
	for {
		switch w.word.Load() {
		case waitWord(seq, waitOpen):
			if w.Claim(seq) {
				return offerWon
			}
		case waitWord(seq, waitClosed):
			if w.word.CompareAndSwap(waitWord(seq, waitClosed), waitWord(seq, waitCalled)) {
				return offerHeld
			}
		case waitWord(seq, waitCalled):
			return offerHeld
		default:
			return offerLost
		}
	}
}

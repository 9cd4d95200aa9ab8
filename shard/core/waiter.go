package core

import (
	"fmt"
	"sync/atomic"
)

// A Waiter is the one word about a client that shards share. It decides which shard serves the
// client's waiting reserve. The session arms it and hands the sequence number to every shard it
// waits in. The shard that wins the compare-and-swap owns Msg until the session has taken it
// back from its Home.
//
// A wait in one shard is open at once. A wait in several shards is closed until the client is in
// the queues of all of them: otherwise the first shard might serve a job although another shard has
// a better one, or one that needs no wait. A shard with a job for a closed wait calls the wait
// instead of serving it, and gives the job to the next client in the queue or keeps it. The session
// opens the wait unless it was called; then it reads the keys of all shards again.
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

// The states of a wait: the two low bits of Waiter.word.
const (
	waitOpen uint64 = iota
	waitClaimed
	waitClosed
	waitCalled
)

// waitWord is the word of the wait seq in a state.
func waitWord(seq, state uint64) uint64 { return seq<<2 | state }

// A Guard knows what a client has seen of the other shards. A core asks it, while owned, before
// it serves a reserve that is Multi.
type Guard interface {
	// Stands reports whether there was a moment, while this shard was owned, at which no other
	// shard had a job for the client that comes before k; MaxKey: no job at all. It does not
	// block, and its work is bounded: false may also mean that it cannot tell.
	Stands(k Key) bool
}

// stands asks the Guard, if there is one.
func (w *Waiter) stands(k Key) bool { return w.Guard == nil || w.Guard.Stands(k) }

// arm begins the next wait in the given state.
func (w *Waiter) arm(state uint64) uint64 {
	seq := w.word.Load()>>2 + 1
	w.word.Store(waitWord(seq, state))
	return seq
}

// Arm begins a wait and returns its number. Only the session calls it, when no wait is pending.
func (w *Waiter) Arm() uint64 { return w.arm(waitOpen) }

// ArmClosed is Arm for a wait in several shards.
func (w *Waiter) ArmClosed() uint64 { return w.arm(waitClosed) }

// Open opens the closed wait seq. It reports false if a shard has called the wait, which is
// then not opened.
func (w *Waiter) Open(seq uint64) bool {
	return w.word.CompareAndSwap(waitWord(seq, waitClosed), waitWord(seq, waitOpen))
}

// Reset makes the called wait seq closed, before the session reads the keys of all shards again.
func (w *Waiter) Reset(seq uint64) {
	w.word.CompareAndSwap(waitWord(seq, waitCalled), waitWord(seq, waitClosed))
}

// Take ends the wait seq, which is closed or called; zero: there is none. The session calls it,
// or the shard that answers the session, when nothing else can end the wait. A store is enough:
// it may overwrite a concurrent call of a shard, which does not matter once the wait is over.
func (w *Waiter) Take(seq uint64) {
	if seq != 0 {
		w.word.Store(waitWord(seq, waitClaimed))
	}
}

// Claim wins or loses the open wait seq: exactly one caller ever wins it.
func (w *Waiter) Claim(seq uint64) bool {
	return w.word.CompareAndSwap(waitWord(seq, waitOpen), waitWord(seq, waitClaimed))
}

// An offer's outcome.
type offered uint8

const (
	offerWon    offered = iota // the caller must end the wait
	offerCalled                // the wait is closed; its session will see the call
	offerLost                  // the wait is over
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
				return offerCalled
			}
		case waitWord(seq, waitCalled):
			return offerCalled
		default:
			return offerLost
		}
	}
}

// waitQueue is a tube's waiting clients in order of arrival: a list of watches.
type waitQueue struct {
	head, tail, n uint32
}

// queue adds watch i to a tube's queue.
func (c *Core) queue(q *waitQueue, i uint32) {
	w := c.watches.At(i)
	w.prev, w.next = q.tail, 0
	if q.tail != 0 {
		c.watches.At(q.tail).next = i
	} else {
		q.head = i
	}
	q.tail = i
	q.n++
}

// unqueue takes watch i out of q. It panics if the links show that i is not in q.
func (c *Core) unqueue(q *waitQueue, i uint32) {
	w := c.watches.At(i)
	if w.prev == 0 && q.head != i || w.next == 0 && q.tail != i {
		panic(fmt.Sprintf("core: client %d, watch %d between %d and %d, is not in the queue of tube %d from %d to %d of %d",
			w.client, i, w.prev, w.next, w.tube, q.head, q.tail, q.n))
	}
	if w.prev != 0 {
		c.watches.At(w.prev).next = w.next
	} else {
		q.head = w.next
	}
	if w.next != 0 {
		c.watches.At(w.next).prev = w.prev
	} else {
		q.tail = w.prev
	}
	w.prev, w.next = 0, 0
	q.n--
}

// wait queues cl in every tube it watches.
func (c *Core) wait(cl *client, seq uint64, until Time) {
	cl.waiting = true
	cl.seq = seq
	cl.until = until
	for _, i := range cl.watches.list {
		c.queue(&c.tubes[c.watches.At(i).tube].waiters, i)
	}
	c.counts.waiting++
	c.timers.want(&cl.timer, c.dueAt(&cl.timer))
}

// unwait takes cl out of the queues. A wait that another shard has served stays queued here
// until OpCancel, until this core finds that it is over, or until the client's next reserve,
// watch or ignore in this core.
func (c *Core) unwait(cl *client) {
	if !cl.waiting {
		return
	}
	cl.waiting = false
	for _, i := range cl.watches.list {
		c.unqueue(&c.tubes[c.watches.At(i).tube].waiters, i)
	}
	c.counts.waiting--
}

// match must follow every transition that makes a job of t ready: it serves waiting clients,
// and then wakes sleeping workers if jobs are left.
func (c *Core) match(t *tube) {
	c.serve(t)
	if t.function != nil && t.readyPos != 0 {
		c.wakeSleepers(t.function)
	}
}

// serve hands the ready jobs of t to waiting clients, the most urgent job to the client that
// has waited longest, and publishes t. Afterwards a tube never has both a job that can be
// reserved and a waiting client, unless the client's wait is closed.
func (c *Core) serve(t *tube) {
	for i := t.waiters.head; i != 0 && t.readyPos != 0; {
		cl := c.clientOf(i)
		i = c.watches.At(i).next
		switch cl.waiter.offer(cl.seq) {
		case offerWon:
			c.unwait(cl)
			j := c.reserve(t, cl)
			c.woke(cl, StatusReserved, j)
		case offerLost:
			c.unwait(cl) // served by another shard, or gone
		}
	}
	c.publish(t)
}

// wake ends the wait of cl with a status, unless another shard has ended it. A closed wait ends
// only in this core: it is called, so its session comes back.
func (c *Core) wake(cl *client, s Status) {
	won := cl.waiter.offer(cl.seq) == offerWon
	c.unwait(cl)
	if won {
		c.woke(cl, s, nil)
	}
}

// woke fills the message of a waiter that was won; j is its job, or nil.
func (c *Core) woke(cl *client, s Status, j *Job) {
	m := &cl.waiter.Msg
	m.Op.Client = cl.id
	m.Reply = Reply{Status: s, Client: cl.id, Held: uint32(cl.held.N)}
	if j != nil {
		c.replyJob(&m.Reply, s, j)
		m.KeepBody()
	}
	c.woken = append(c.woken, cl.waiter)
}

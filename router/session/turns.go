package session

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A Loop is the sessions' side of one event loop: its sessions share its output buffer, its
// batch and its clock. Only the holder of own may touch it: the event loop's goroutine, or
// a helper. The atomics and the methods that say so are for any goroutine.
type Loop struct {
	own    sync.Mutex
	turned atomic.Int64 // when it had its last turn

	// Index is its position in Host.Loops. Ended finishes ids for the loop's sessions.
	Index int
	Ended ops.Finisher

	host     *Host
	shards   []*shard.Shard // the host's, by index
	batch    shard.Batch
	out      []byte // replies of the session in its turn
	large    largeOutput
	round    round
	queue    fifo[*Session]      // sessions that go on in a later turn
	messages []*core.Message     // free ones
	answer   fifo[*core.Message] // finished, and not yet delivered

	registry registry
	gate     gate
	holders  holders

	wakeUp wakeUp

	corks    corks
	yielded  core.Time // when it last gave its processor away; the event loop's own
	signals  signals
	counters counters

	outbox atomic.Pointer[core.Message] // newest first
	_      [56]byte

	counts counts
	// unfinished counts operations left in shards, turns put off and gated replies: a
	// shutdown waits for all of them.
	unfinished atomic.Int64
}

// NewLoop adds a loop to the host. wake must have the loop's poller call GoOn(true) in its
// next pass over what is ready; any goroutine may call wake at any time.
func NewLoop(h *Host, wake func()) *Loop {
	l := &Loop{host: h, shards: h.Map.Shards(), Ended: h.Map.Finisher()}
	l.wakeUp.call = wake
	l.corks.runAfter = func(d time.Duration) { time.AfterFunc(d, l.run) }
	l.batch.Home = l
	l.counts.commands = make([]atomic.Uint64, h.kinds)
	l.counts.errors = make([]atomic.Uint64, h.errors)
	l.Index = h.add(l)
	return l
}

// BeHelped allows other goroutines to drain the loop while it is idle. tasks reports
// whether the poller, when it was woken, has something to do besides GoOn.
func (l *Loop) BeHelped(tasks func() bool) { l.wakeUp.tasks = tasks }

// RunAfter replaces the timer of corked replies: f must have GoOn called after that time.
// With nil no replies are corked.
func (l *Loop) RunAfter(f func(time.Duration)) { l.corks.runAfter = f }

// Enter and Exit surround every callback of the event loop, and so every call that is not
// for any goroutine.
func (l *Loop) Enter() { l.own.Lock() }

// TryEnter is Enter unless another goroutine holds the loop.
func (l *Loop) TryEnter() bool { return l.own.TryLock() }

// Exit ends what Enter began.
func (l *Loop) Exit() {
	l.turned.Store(int64(l.batch.Now))
	l.own.Unlock()
}

// Host returns what the loop shares with others.
func (l *Loop) Host() *Host { return l.host }

// Batch returns the loop's batch: the time of its callback, and what it carries from shard
// to shard.
func (l *Loop) Batch() *shard.Batch { return &l.batch }

// awake is the time of the callback without suspends.
func (l *Loop) awake() core.Time { return l.batch.Now - l.batch.Slept }

// A busy event loop gives its processor to the server's other goroutines (shards with due
// timers, accounting, signals) once every yieldEvery. With no more processors than loops
// the runtime would preempt a loop only after ten milliseconds.
const yieldEvery = core.Time(time.Millisecond)

// MustYield reports whether the event loop, in a callback that began at now, must yield its
// processor, with nothing locked.
func (l *Loop) MustYield(now core.Time) bool {
	if now-l.yielded < yieldEvery {
		return false
	}
	l.yielded = now
	return true
}

// Post implements core.Home: m is finished, and its session is on this loop. The first
// message of an idle outbox wakes the loop, the others ride along.
func (l *Loop) Post(m *core.Message) {
	for {
		head := l.outbox.Load()
		m.Next.Store(head)
		if l.outbox.CompareAndSwap(head, m) {
			if head == nil {
				l.run()
			}
			return
		}
	}
}

// HasWork reports whether operations are under way, turns are put off or messages wait;
// from any goroutine but the loop's holder. It waits for the end of a turn, because a turn
// may have taken messages out of the outbox.
func (l *Loop) HasWork() bool {
	l.own.Lock()
	defer l.own.Unlock()
	return l.unfinished.Load() > 0 || l.outbox.Load() != nil || l.answer.len() > 0
}

// Open makes a session for a new connection and gives it its first turn.
func (l *Loop) Open(f Front, c Conn) *Session {
	l.stamp()
	s := f.Open(l, c)
	l.enroll(s, f)
	if st, ok := s.proto.(starter); ok {
		l.turn(s, func(s *Session) {
			st.Start()
			s.Run()
			s.Go()
		})
		l.endCallback()
	}
	return s
}

// Input gives s bytes from its connection, and a turn.
func (l *Loop) Input(s *Session, b []byte) {
	before := l.batch.Now
	l.stamp()
	l.corks.gap += (l.batch.Now - before - l.corks.gap) / gapWeight
	l.counters.own[CountReceived] += uint64(len(b))
	floor := min(l.round.left, 0)
	l.startTurn(max(l.round.left, l.fresh()))
	l.round.budget -= InputUnits
	s.input(b)
	l.endTurn(s)
	l.round.left = max(l.round.left, floor) // no other session's answer waits for it
	l.endCallback()
}

// Event gives s a turn for something that happened to its connection.
func (l *Loop) Event(s *Session, f func(*Session)) {
	l.stamp()
	l.turn(s, f)
	l.endCallback()
}

// GoOn goes on with finished messages and signals. The poller calls it with round set:
// then a round begins, and the queue has its share. A helper comes in between.
func (l *Loop) GoOn(round bool) {
	l.stamp()
	l.wakeUp.underWay.Store(false) // later messages must wake the loop again
	if round {
		l.round.left = RoundUnits / 2
	}
	l.takeOutbox()
	l.deliver()
	if round {
		l.round.left = max(l.round.left, 0)
	}
	l.openGate()
	l.uncork()
	list := l.signals.take()
	for i, g := range list {
		if l.round.left <= -DebtUnits {
			l.signals.giveBack(list[i:])
			l.Ask()
			break
		}
		l.answerSignal(g)
	}
	if round {
		// The queue has half of the round, whatever the answers took.
		l.round.left = max(l.round.left, 0) + RoundUnits/2
		l.serveQueue()
	}
	l.endCallback()
}

// stamp begins a callback.
func (l *Loop) stamp() {
	l.host.Clock.Stamp(&l.batch)
	l.round.counted, l.round.looked = 0, l.awake()
}

// endCallback ends every callback of the event loop.
func (l *Loop) endCallback() {
	l.deliver()
	if l.queue.len() > 0 || l.answer.len() > 0 {
		l.Ask()
	}
	l.show()
}

// turn gives s a turn: f runs its commands, then its replies are written.
func (l *Loop) turn(s *Session, f func(*Session)) {
	l.startTurn(l.shareOf(s))
	f(s)
	l.endTurn(s)
}

// later puts s at the end of the queue.
func (l *Loop) later(s *Session) {
	if !s.queued {
		s.queued = true
		l.unfinished.Add(1)
		l.counters.own[CountDeferred]++
		l.queue.push(s)
	}
}

// serveQueue gives the queued sessions their turns, in parts of the round, until it is used
// up. A session that is not done goes to the end of the queue.
func (l *Loop) serveQueue() {
	for l.queue.len() > 0 && l.round.left > 0 {
		share := max(shareUnits, l.round.left/l.queue.len())
		s := l.queue.pop()
		s.queued = false
		l.unfinished.Add(-1)
		l.startTurn(share)
		s.turn()
		l.endTurn(s)
	}
}

// takeOutbox takes what other loops and the shards have posted, the oldest first.
func (l *Loop) takeOutbox() {
	var head *core.Message
	for m := l.outbox.Swap(nil); m != nil; {
		next := m.Next.Load()
		m.Next.Store(head)
		head, m = m, next
	}
	for m := head; m != nil; {
		next := m.Next.Load()
		m.Next.Store(nil)
		l.answer.push(m)
		m = next
	}
}

// deliver hands finished messages over, also from this loop's own visits to shards,
// and what that brings about. The rest waits for the next round.
func (l *Loop) deliver() {
	for l.round.left > -DebtUnits {
		if l.answer.len() == 0 {
			if len(l.batch.Local) == 0 {
				return
			}
			l.takeLocal()
		}
		s := l.answer.first().Owner.(*Session)
		if l.round.left <= 0 && s.held() > freshBytes {
			break // it would say only this and wait for its turn: one write more
		}
		m := l.answer.pop()
		l.startTurn(l.shareOf(s))
		s.arrived(m)
		l.endTurn(s)
	}
	l.takeLocal()
}

func (l *Loop) takeLocal() {
	for i, m := range l.batch.Local {
		l.answer.push(m)
		l.batch.Local[i] = nil
	}
	l.batch.Local = l.batch.Local[:0]
}

// A round shares the time of a loop among its sessions. It begins when the loop's own
// wake-up comes through its poller, together with all else that is ready. So between the
// beginnings of two rounds every readable socket is heard, and a session that needs more
// than a round allows waits in a queue for the next.
//
// A session that brings input while the round is used up, or that has little left to do,
// still gets some units; see fresh. So a client that sends a command and waits for the
// answer never queues behind clients that pipeline without end.
//
// Work is counted in units of about unitTime. The clock is read every lookUnits: the count
// says when to read it, and the clock what the work was worth. A Driven's clock stands
// still in a turn, so there the count alone decides.
type round struct {
	budget int // what the turn may still use before it asks for more
	lent   int // budget as it was given
	share  int // what the turn may use besides
	left   int // of the round; below zero: overdrawn

	counted int       // units since the clock was read
	looked  core.Time // when that was; time awake
}

const (
	// unitTime is the cost of a plain command, or a little more.
	unitTime = core.Time(500 * time.Nanosecond)
	// lookUnits of work are done between two readings of the clock.
	lookUnits = 32
	// RoundUnits are the work of a round, an eighth of a millisecond. With twice as many,
	// a client that waits for each answer waits twice as long behind one that pipelines
	// without end, and the latter gains a tenth.
	RoundUnits = 256
	// shareUnits are the least share of a queued session in a round, so that its replies
	// leave in few pieces.
	shareUnits = 256
	// freshUnits are the share of all sessions outside the queue together; each has
	// between freshMin and freshMost.
	freshUnits, freshMin, freshMost = 8192, 16, 256
	// freshBytes of held input are little left to do.
	freshBytes = 1 << 10
	// DebtUnits bound the answers of a round that is used up; then they wait, too.
	DebtUnits = 1024

	// InputUnits are the cost of a callback of the event loop and its read, WriteUnits
	// the cost of a write.
	InputUnits = 8
	WriteUnits = 8
	// PartUnits are the cost of a part of bounded work in a shard; see Session.Later.
	PartUnits = 1024
)

// startTurn begins a turn with a share in units. endTurn ends it.
func (l *Loop) startTurn(share int) {
	r := &l.round
	r.share = share
	r.lent = min(share, lookUnits)
	r.budget = r.lent
}

// shareOf is the share of s in a turn outside of the queue.
func (l *Loop) shareOf(s *Session) int {
	share := max(l.round.left, 0)
	if l.queue.len() > 0 {
		share = min(share, shareUnits)
	}
	if s.held() <= freshBytes {
		share = max(share, l.fresh())
	}
	return share
}

// fresh is what a session may use however little is left of the round: the more
// connections may come at once, the less.
func (l *Loop) fresh() int {
	return max(freshMin, min(freshMost, freshUnits/max(1, l.registry.n)))
}

// endTurn sends what s said in its turn, and counts what the turn has used.
func (l *Loop) endTurn(s *Session) {
	if s != nil {
		s.Flush()
		s.giveMessage()
	}
	r := &l.round
	l.spendRound(r.lent - r.budget)
	r.lent, r.budget, r.share = 0, 0, 0
}

// more lends the turn the next units of its share. It reports false if none are left: the
// turn is over.
func (l *Loop) more() bool {
	r := &l.round
	before := r.left
	l.spendRound(r.lent - r.budget)
	r.share -= before - r.left
	r.lent = max(0, min(r.share, lookUnits))
	r.budget = r.lent
	return r.budget > 0
}

// spendRound takes units off the round, or what they were worth by the clock: at least a
// quarter, since the time between two readings is not only turns.
func (l *Loop) spendRound(units int) {
	r := &l.round
	r.left -= units
	if r.counted += units; r.counted >= lookUnits {
		now := l.host.Clock.Awake()
		if took := int((now - r.looked) / unitTime); took > 0 {
			r.left += r.counted - max(took, r.counted/4)
		}
		r.counted, r.looked = 0, now
	}
}

// MayParse reports whether the next command may be parsed; the caller must then parse it.
// When the turn's time is spent it may not, and MayParse queues the session for a later
// turn.
func (s *Session) MayParse() bool {
	if s.Stopped() {
		return false
	}
	if s.loop.round.budget <= 0 && !s.loop.more() {
		s.loop.later(s)
		return false
	}
	return true
}

// MayContinue reports whether a reply that comes in parts may go on in this turn. It spends
// nothing: each part does, by Spend.
func (s *Session) MayContinue() bool {
	return s.stops == 0 && (s.loop.round.budget > 0 || s.loop.more())
}

// Spend counts units of work of the turn under way.
func (s *Session) Spend(units int) { s.loop.round.budget -= units }

// Spend counts units of work of the turn under way.
func (l *Loop) Spend(units int) { l.round.budget -= units }

// SpendOne counts a unit, and reports whether the turn may go on. It implements ops.Pace.
func (l *Loop) SpendOne() (goOn bool) {
	l.round.budget--
	if l.host.LookMost != ops.LookMost {
		l.round.budget -= RoundUnits // a test wants a survey to take many rounds
	}
	return l.round.budget > 0 || l.more()
}

// LookMost implements ops.Pace.
func (l *Loop) LookMost() int { return l.host.LookMost }

// A fifo is a queue. Its zero value is empty.
type fifo[T any] struct {
	list []T
	at   int // of the first entry
}

func (q *fifo[T]) len() int { return len(q.list) - q.at }

func (q *fifo[T]) push(v T) {
	if q.at > 0 && len(q.list) == cap(q.list) && q.at >= len(q.list)/2 {
		// Use the free front instead of growing.
		n := copy(q.list, q.list[q.at:])
		clear(q.list[n:])
		q.list, q.at = q.list[:n], 0
	}
	q.list = append(q.list, v)
}

// first returns the first entry; there must be one.
func (q *fifo[T]) first() T { return q.list[q.at] }

// pop takes the first entry out; there must be one.
func (q *fifo[T]) pop() T {
	var none T
	v := q.list[q.at]
	q.list[q.at] = none
	if q.at++; q.at == len(q.list) {
		q.list, q.at = q.list[:0], 0
		if cap(q.list) > fifoKeep {
			q.list = nil
		}
	}
	return v
}

// fifoKeep entries are kept allocated while a queue is empty.
const fifoKeep = 4096

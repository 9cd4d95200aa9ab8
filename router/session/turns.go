package session

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A Loop runs the sessions of one event loop, which share its output buffer, its batch and its
// clock. Only the holder of own may use it: the event loop's goroutine, or a helper. Any
// goroutine may use the atomics, and methods if their comments allow it.
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
	queue    fifo[*Session]      // sessions that continue in a later turn
	messages []*core.Message     // free messages
	answer   fifo[*core.Message] // finished messages, not yet delivered

	registry registry
	gate     gate
	holders  holders

	wakeUp wakeUp

	corks    corks
	yielded  core.Time // when the event loop last yielded its processor
	signals  signals
	counters counters

	outbox atomic.Pointer[core.Message] // newest first
	_      [56]byte

	counts counts
	// unfinished counts pending operations, deferred turns, sessions with gated replies, and
	// one if replies are corked. A shutdown waits for all of them.
	unfinished atomic.Int64
}

// NewLoop adds a loop to the host. wake must make the loop's poller call GoOn(true) in its next
// pass over the ready sockets; any goroutine may call wake at any time.
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

// BeHelped allows other goroutines to call GoOn while the loop is idle. tasks reports whether
// the woken poller has more to do than GoOn.
func (l *Loop) BeHelped(tasks func() bool) { l.wakeUp.tasks = tasks }

// RunAfter replaces the timer of corked replies: f must make GoOn run after that time. If f is
// nil, no replies are corked.
func (l *Loop) RunAfter(f func(time.Duration)) { l.corks.runAfter = f }

// Enter and Exit surround every callback of the event loop, and every call of a method that is
// not for any goroutine.
func (l *Loop) Enter() { l.own.Lock() }

// TryEnter is Enter unless another goroutine holds the loop.
func (l *Loop) TryEnter() bool { return l.own.TryLock() }

// Exit ends what Enter began.
func (l *Loop) Exit() {
	l.turned.Store(int64(l.batch.Now))
	l.own.Unlock()
}

// Host returns the host, which all loops share.
func (l *Loop) Host() *Host { return l.host }

// Batch returns the loop's batch, with which it visits shards. It has the time of the callback.
func (l *Loop) Batch() *shard.Batch { return &l.batch }

// awake returns the time of the callback without suspends.
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

// Post implements core.Home: it returns a finished message to its session on this loop. Only
// the first message in an empty outbox wakes the loop.
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

// HasWork reports whether operations are pending, turns are deferred or messages wait. Any
// goroutine except the loop's holder may call it. It waits for the end of a turn, because a
// turn may have taken messages out of the outbox.
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
	// Since its handshake a reload may have looked at all sessions without this one.
	if isRevoked(c) || l.host.Access != nil && !s.identify() {
		l.turn(s, (*Session).QuitNow)
		l.endCallback()
		return s
	}
	if l.host.Access != nil {
		l.expect(s)
	}
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

// Input gives s a turn with bytes from its connection.
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
	l.round.left = max(l.round.left, floor) // input must not delay the replies of other sessions
	l.endCallback()
}

// Event gives s a turn in which f handles an event of its connection.
func (l *Loop) Event(s *Session, f func(*Session)) {
	l.stamp()
	l.turn(s, f)
	l.endCallback()
}

// GoOn delivers finished messages and signals. The poller calls it with round set: then a round
// begins, and queued sessions get turns. A helper calls it without.
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
		// The queue gets half of the round, even if deliveries took more than the other half.
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

// later appends s to the queue, unless it is queued.
func (l *Loop) later(s *Session) {
	if !s.queued {
		s.queued = true
		l.unfinished.Add(1)
		l.counters.own[CountDeferred]++
		l.queue.push(s)
	}
}

// serveQueue gives turns to queued sessions until the round is used up. Each gets a share of the
// round. A session that is not done goes to the end of the queue.
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

// takeOutbox moves the messages that other goroutines have posted to answer, oldest first.
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

// deliver delivers finished messages, including messages that this loop's visits to shards have
// finished. When the round is overdrawn, the rest waits for the next one.
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
			break // its turn comes later; two turns would cost one more write
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

// A round shares the time of a loop among its sessions. It begins when the poller reports the
// loop's wake-up among the ready sockets. So every readable socket is served between the
// beginnings of two rounds. A session that needs more than a round allows waits in a queue for
// the next round.
//
// A session with new input in a used-up round, or with little left to do, still gets some
// units; see fresh. So a client that waits for each reply never queues behind clients that
// pipeline without end.
//
// Work is counted in units of about unitTime. After lookUnits units the clock is read, to
// measure their real cost. The clock of a routertest.Driven stands still in a turn, so there
// only the count matters.
type round struct {
	budget int // units that the turn may use before it must call more
	lent   int // the initial budget
	share  int // units that the turn may still get, budget included
	left   int // units left in the round; below zero: overdrawn

	counted int       // units since the clock was read
	looked  core.Time // when the clock was read, in time awake
}

const (
	// unitTime is about the cost of a simple command.
	unitTime = core.Time(500 * time.Nanosecond)
	// lookUnits is the work between two readings of the clock.
	lookUnits = 32
	// RoundUnits is the work of a round, an eighth of a millisecond. With twice as much, a
	// client that waits for each reply waits twice as long behind a client that pipelines
	// without end, and the latter gains a tenth.
	RoundUnits = 256
	// shareUnits is the least share of a queued session in a round, so that its replies
	// need few writes.
	shareUnits = 256
	// freshUnits is divided among all sessions; each share is from freshMin to freshMost.
	freshUnits, freshMin, freshMost = 8192, 16, 256
	// freshBytes is the largest held input that counts as little left to do.
	freshBytes = 1 << 10
	// DebtUnits is how far deliveries may overdraw a round. After that they wait, too.
	DebtUnits = 1024

	// InputUnits is the cost of a callback of the event loop with its read, WriteUnits the
	// cost of a write.
	InputUnits = 8
	WriteUnits = 8
	// PartUnits is the cost of one part of bounded work in a shard; see Session.Later.
	PartUnits = 1024
)

// startTurn begins a turn with a share in units.
func (l *Loop) startTurn(share int) {
	r := &l.round
	r.share = share
	r.lent = min(share, lookUnits)
	r.budget = r.lent
}

// shareOf returns the share of s in a turn outside of the queue.
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

// fresh returns the units that a session may use even in a used-up round. They get fewer with
// more connections, because all of them may have input at once.
func (l *Loop) fresh() int {
	return max(freshMin, min(freshMost, freshUnits/max(1, l.registry.n)))
}

// endTurn sends the output of s, which may be nil, and counts the units that the turn has used.
func (l *Loop) endTurn(s *Session) {
	if s != nil {
		s.Flush()
		s.giveMessage()
	}
	r := &l.round
	l.spendRound(r.lent - r.budget)
	r.lent, r.budget, r.share = 0, 0, 0
}

// more gives the turn the next units of its share. It returns false if none are left: the turn
// is over.
func (l *Loop) more() bool {
	r := &l.round
	before := r.left
	l.spendRound(r.lent - r.budget)
	r.share -= before - r.left
	r.lent = max(0, min(r.share, lookUnits))
	r.budget = r.lent
	return r.budget > 0
}

// spendRound subtracts units from the round. When it reads the clock it corrects them by the
// measured time. The correction has a lower limit of a quarter of the units.
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

// MayParse reports whether the next command may be parsed; the caller must then parse it. If
// only the turn's time is used up, MayParse queues the session for a later turn.
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

// MayContinue reports whether a reply in parts may continue in this turn. The caller must call
// Spend for each part.
func (s *Session) MayContinue() bool {
	return s.stops == 0 && (s.loop.round.budget > 0 || s.loop.more())
}

// Spend counts units of work of the turn under way.
func (s *Session) Spend(units int) { s.loop.round.budget -= units }

// Spend counts units of work of the turn under way.
func (l *Loop) Spend(units int) { l.round.budget -= units }

// SpendOne counts a unit, and reports whether the turn may continue. It implements ops.Pace.
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

// first returns the first entry of a queue that is not empty.
func (q *fifo[T]) first() T { return q.list[q.at] }

// pop removes and returns the first entry of a queue that is not empty.
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

// fifoKeep is the largest capacity that an empty queue keeps.
const fifoKeep = 4096

package session

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A Loop is the sessions' side of one event loop: those on it share its output buffer, its
// batch and its clock. All but Post, Signal, lookAtGate and the atomics is touched only by
// who holds own: the event loop's goroutine, or a helper.
type Loop struct {
	own    sync.Mutex
	turned atomic.Int64 // when it had its last turn

	// Index is its position in Host.Loops. Ended finishes ids for the loop's sessions.
	Index int
	Ended ops.Finisher

	host     *Host
	shards   []*shard.Shard // the host's, by index
	batch    shard.Batch
	out      []byte // replies of the session whose turn it is
	large    largeOutput
	round    round
	queue    fifo[*Session]      // to go on in a later turn
	messages []*core.Message     // that no session has
	answer   fifo[*core.Message] // came back, and not yet delivered

	roll    roll
	gate    gate
	charged chargedList

	wakeUp wakeUp

	corks   corks
	yielded core.Time // when it last let others have its processor; the event loop's own
	signals signals
	tallies tallies

	outbox atomic.Pointer[core.Message] // newest first
	_      [56]byte

	counts counts
	// unfinished counts operations left in shards and turns put off: what a shutdown
	// waits for.
	unfinished atomic.Int64
}

// A wakeUp has a loop's GoOn called, by its poller or by who helps.
type wakeUp struct {
	// call has the poller call GoOn, in its next pass over what is ready; from any
	// goroutine. underWay is set while such a call is.
	call     func()
	underWay atomic.Bool
	// tasks reports whether the poller has something else to do when it was woken; nil:
	// nobody may help.
	tasks func() bool
}

// NewLoop adds a loop to the host. wake is to have GoOn(true) called by the loop's
// poller, in its next pass over what is ready; it may be called by anyone, at any time.
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

// BeHelped allows others to drain the loop in their own goroutines while it is idle. tasks
// reports whether the poller has something to do, when it was woken, besides GoOn.
func (l *Loop) BeHelped(tasks func() bool) { l.wakeUp.tasks = tasks }

// RunAfter replaces the timer by which the loop looks at replies that it keeps back: f has
// GoOn called after that time. nil: none are kept back.
func (l *Loop) RunAfter(f func(time.Duration)) { l.corks.runAfter = f }

// Enter and Exit surround every callback of the event loop, hence all other calls but
// those that say that anyone may make them.
func (l *Loop) Enter() { l.own.Lock() }

// TryEnter is Enter unless somebody else has the loop.
func (l *Loop) TryEnter() bool { return l.own.TryLock() }

// Exit ends what Enter began.
func (l *Loop) Exit() {
	l.turned.Store(int64(l.batch.Now))
	l.own.Unlock()
}

// Host is what the loop shares with others.
func (l *Loop) Host() *Host { return l.host }

// Batch is the loop's: the time of its callback, and what it carries from shard to shard.
func (l *Loop) Batch() *shard.Batch { return &l.batch }

// awake is the time of the callback without what was spent in suspends.
func (l *Loop) awake() core.Time { return l.batch.Now - l.batch.Slept }

// run has GoOn called soon; from any goroutine, with no shard owned.
func (l *Loop) run() {
	w := &l.wakeUp
	if w.underWay.Load() || !w.underWay.CompareAndSwap(false, true) {
		return
	}
	if w.tasks == nil || !l.help() {
		w.call()
	}
}

// Ask is like run, but never helps: the poller makes the call. It is for the loop itself,
// and for who has left the poller something to do.
func (l *Loop) Ask() {
	w := &l.wakeUp
	if !w.underWay.Load() && w.underWay.CompareAndSwap(false, true) {
		w.call()
	}
}

// WakeFailed is for a wake that did nothing: it is tried again after that time.
func (l *Loop) WakeFailed(after time.Duration) {
	l.wakeUp.underWay.Store(false)
	time.AfterFunc(after, l.run)
}

// idleAfter is how long a loop has had no turn when it is taken for idle. A busy one is
// left alone: its thread is awake, and would have to wait for us.
const idleAfter = core.Time(50 * time.Microsecond)

// help drains in place of an idle event loop: to wake its thread, on another core, costs
// more than the turn. It reports false when the loop is to do it. It never waits, so
// helpers may meet in any order, and a loop in the middle of a turn is not entered again.
func (l *Loop) help() bool {
	if l.host.Clock.Now()-core.Time(l.turned.Load()) < idleAfter || !l.TryEnter() {
		return false
	}
	defer l.Exit()
	l.Tally(TallyHelps, 1)
	l.GoOn(false)
	if l.wakeUp.tasks() {
		l.Ask() // whoever left it found this call under way, which cannot do it
	}
	return true
}

// yieldEvery is how long an event loop that always has something to do keeps its
// processor from the server's other goroutines: shards with timers that are due, the
// account of what connections keep, signals. When there are no more processors than loops
// the runtime would take one away from a loop after ten milliseconds only.
const yieldEvery = core.Time(time.Millisecond)

// MustYield reports whether the event loop, whose callback began at now, is to let others
// have its processor, with nothing locked. One whose poller has found nothing has done so
// by itself; that it is asked once more then costs little.
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

// HasWork reports whether operations are under way, turns are put off or messages
// (answers, wake-ups, reports) wait; from any goroutine but the owner's. It waits for the
// end of a turn: what that has taken from the outbox is in neither of the two.
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
	if st, ok := s.proto.(Starter); ok {
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
	l.tallies.own[TallyInputs]++
	l.tallies.own[TallyReceived] += uint64(len(b))
	floor := min(l.round.left, 0)
	l.startTurn(max(l.round.left, l.fresh()))
	l.round.budget -= InputUnits
	s.input(b)
	l.endTurn(s)
	l.round.left = max(l.round.left, floor) // nobody else's answer waits for it
	l.endCallback()
}

// Event gives s a turn for something that happened to its connection.
func (l *Loop) Event(s *Session, f func(*Session)) {
	l.stamp()
	l.turn(s, f)
	l.endCallback()
}

// GoOn goes on with what came from elsewhere: finished messages and signals. When the
// poller calls it, by way of wake, a round begins, and the queue has its share of that; a
// helper comes in between.
func (l *Loop) GoOn(round bool) {
	l.stamp()
	l.wakeUp.underWay.Store(false) // what comes from here on has to wake the loop again
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
		// Half of it is theirs, whatever the answers took.
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

// turn gives s its turn: f runs its commands, then its replies are written.
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
		l.tallies.own[TallyDeferred]++
		l.queue.push(s)
	}
}

// serveQueue gives those who wait their turns, in parts of the round, until it is used up.
// Who is not done then is at the end of the queue again.
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

// deliver hands over what has come back, also what this loop's own visits to shards have
// finished for its other sessions meanwhile, and what that brings about. The rest waits
// for the next round.
func (l *Loop) deliver() {
	for l.round.left > -DebtUnits {
		if l.answer.len() == 0 {
			if len(l.batch.Local) == 0 {
				return
			}
			l.takeLocal()
		}
		s := l.answer.first().Owner.(*Session)
		if l.round.left <= 0 && s.held() > FreshBytes {
			break // it would only say this and wait for its turn: one write more
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

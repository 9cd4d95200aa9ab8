package router

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/codec/beanstalk"
	"polystalk/router/placement"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A loop is the router's side of one event loop: the sessions on it share its
// output buffer, its batch and its clock. All but Post and the counters is
// touched only by who holds own: the event loop's goroutine, or a helper.
type loop struct {
	own    sync.Mutex
	turned atomic.Int64 // when it had its last turn

	srv     *Server
	reactor *reactor // nil in a Driven
	batch   shard.Batch
	out     []byte // replies of the session whose turn it is
	round   round
	queue   fifo[*session]      // to go on in a later turn
	answer  fifo[*core.Message] // came back, and not yet delivered

	holders    []*session // those whose replies wait for a commit
	blocked    []*session // those that wait for room on the disk
	freed      []*session // those that go on after holders were looked at
	keepers    []*session // those that keep something besides jobs
	keepChange int        // bytes of which the account is not told yet

	// wake has the poller call drain, in its next pass over what is ready; from any
	// goroutine. woken is set while such a call is under way. helped: see help.
	wake   func()
	woken  atomic.Bool
	helped bool
	// runAfter calls run after that time; nil: no replies are kept back.
	runAfter func(time.Duration)
	late     []lateSession // the oldest first
	lateDue  core.Time     // when sendLate has something to do, if there is any
	gap      core.Time     // between callbacks, on average
	yielded  core.Time     // when it last let others have its processor; the event loop's own

	ahead ahead              // of the session whose turn it is
	ended placement.Finisher // ids, for the loop's sessions

	signals signals
	tally   [numTallies]uint64 // what shown holds is as of the last settle

	outbox atomic.Pointer[core.Message] // newest first
	_      [56]byte

	// Counters, read by stats from other loops.
	connections, producers, workers, waiting atomic.Int64
	total                                    atomic.Uint64
	// unfinished counts operations left in shards and turns put off: what
	// a shutdown waits for.
	unfinished atomic.Int64
	// needs counts holders and blocked; told is set from tell to letGo.
	needs atomic.Int64
	told  atomic.Bool
	cmds  [beanstalk.NumKinds]atomic.Uint64
	gear  gearCounts
	shown [numTallies]atomic.Uint64
}

// outKeep is the most output buffer that is kept from turn to turn, in bytes.
const outKeep = 1 << 20

func newLoop(srv *Server, wake func()) *loop {
	l := &loop{srv: srv, wake: wake}
	l.runAfter = func(d time.Duration) { time.AfterFunc(d, l.run) }
	l.batch.Home = l
	l.ended = srv.places.Finisher()
	return l
}

// enter and exit surround every callback of the event loop.
func (l *loop) enter() { l.own.Lock() }

func (l *loop) exit() {
	l.turned.Store(int64(l.batch.Now))
	l.own.Unlock()
}

// run has drain called soon; from any goroutine, with no shard owned.
func (l *loop) run() {
	if l.woken.Load() || !l.woken.CompareAndSwap(false, true) {
		return // a call is under way
	}
	if !l.helped || !l.help() {
		l.wake()
	}
}

// ask is run for the loop itself.
func (l *loop) ask() {
	if !l.woken.Load() && l.woken.CompareAndSwap(false, true) {
		l.wake()
	}
}

// idleAfter is how long a loop has had no turn when it is taken for idle. A
// busy one is left alone: its thread is awake, and would have to wait for us.
const idleAfter = core.Time(50 * time.Microsecond)

// help drains in place of an idle event loop: to wake its thread, on another
// core, costs more than the turn. It reports false when the loop is to do it.
// It never waits, so helpers may meet in any order, and a loop in the middle
// of a turn is not entered again.
func (l *loop) help() bool {
	if l.srv.clock.Now()-core.Time(l.turned.Load()) < idleAfter || !l.own.TryLock() {
		return false
	}
	defer l.exit()
	l.tally[tallyHelps]++
	l.drain(false)
	if l.reactor != nil && l.reactor.hasTasks() {
		l.ask() // whoever left it found this call under way, which cannot do it
	}
	return true
}

// Post implements core.Home: m is finished, and its session is on this loop.
// The first message of an idle outbox wakes the loop, the others ride along.
func (l *loop) Post(m *core.Message) {
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

// hasWork reports whether operations are under way, turns are put off or messages
// (answers, wake-ups, reports) wait; from any goroutine but the owner's. It waits for
// the end of a turn: what that has taken from the outbox is in neither of the two.
func (l *loop) hasWork() bool {
	l.own.Lock()
	defer l.own.Unlock()
	return l.unfinished.Load() > 0 || l.outbox.Load() != nil || l.answer.len() > 0
}

// signals are what other goroutines tell about connections.
type signals struct {
	mu   sync.Mutex
	list []signal
}

type signal struct {
	s *session
	f func(*session)
}

func (g *signals) take() []signal {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.list
	g.list = nil
	return list
}

// giveBack puts those that take gave and that had no turn before all others.
func (g *signals) giveBack(list []signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(list, g.list...)
}

// signal gives s a turn for f in the loop; from any goroutine.
func (l *loop) signal(s *session, f func(*session)) {
	l.signals.mu.Lock()
	l.signals.list = append(l.signals.list, signal{s, f})
	l.signals.mu.Unlock()
	l.run()
}

// drain goes on with what came from elsewhere: finished messages and signals. When the
// poller calls it, by way of wake, a round begins, and the queue has its share of that;
// a helper comes in between.
func (l *loop) drain(round bool) {
	l.stamp()
	l.woken.Store(false) // what comes from here on has to wake the loop again
	if round {
		l.round.left = roundUnits / 2
	}
	l.takeOutbox()
	l.deliver()
	if round {
		l.round.left = max(l.round.left, 0)
	}
	l.letGo()
	l.sendLate()
	list := l.signals.take()
	for i, g := range list {
		if l.round.left <= -debtUnits {
			l.signals.giveBack(list[i:])
			l.ask()
			break
		}
		l.turn(g.s, g.f)
	}
	if round {
		// Half of it is theirs, whatever the answers took.
		l.round.left = max(l.round.left, 0) + roundUnits/2
		l.serveQueue()
	}
	l.settle()
}

// stamp begins a callback.
func (l *loop) stamp() {
	l.srv.clock.Stamp(&l.batch)
	l.round.counted, l.round.looked = 0, l.batch.Now-l.batch.Slept
}

// takeOutbox takes what other loops and the shards have posted, the oldest first.
func (l *loop) takeOutbox() {
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

// turn gives s its turn: f runs its commands, then its replies are written.
func (l *loop) turn(s *session, f func(*session)) {
	l.startTurn(l.shareOf(s))
	f(s)
	l.flush(s)
	l.endTurn()
}

// serveQueue gives those who wait their turns, in parts of the round, until it is
// used up. Who is not done then is at the end of the queue again.
func (l *loop) serveQueue() {
	for l.queue.len() > 0 && l.round.left > 0 {
		share := max(shareUnits, l.round.left/l.queue.len())
		s := l.queue.pop()
		s.queued = false
		l.unfinished.Add(-1)
		l.startTurn(share)
		s.again()
		l.flush(s)
		l.endTurn()
	}
}

// deliver hands over what has come back, also what this loop's own visits to shards
// have finished for its other sessions meanwhile, and what that brings about. The rest
// waits for the next round.
func (l *loop) deliver() {
	for l.round.left > -debtUnits {
		if l.answer.len() == 0 {
			if len(l.batch.Local) == 0 {
				return
			}
			l.takeLocal()
		}
		s := l.answer.first().Owner.(*session)
		if l.round.left <= 0 && s.held() > freshBytes {
			break // it would only say this and wait for its turn: one write more
		}
		m := l.answer.pop()
		l.startTurn(l.shareOf(s))
		s.completed(m)
		l.flush(s)
		l.endTurn()
	}
	l.takeLocal()
}

func (l *loop) takeLocal() {
	for i, m := range l.batch.Local {
		l.answer.push(m)
		l.batch.Local[i] = nil
	}
	l.batch.Local = l.batch.Local[:0]
}

// settle ends every callback of the event loop.
func (l *loop) settle() {
	l.deliver()
	if l.queue.len() > 0 || l.answer.len() > 0 {
		l.ask()
	}
	l.show()
}

// later puts s at the end of the queue.
func (l *loop) later(s *session) {
	if !s.queued {
		s.queued = true
		l.unfinished.Add(1)
		l.tally[tallyDeferred]++
		l.queue.push(s)
	}
}

// flush writes the replies of s. It stops the session while the client does
// not read them.
func (l *loop) flush(s *session) {
	if len(l.out) == 0 {
		return
	}
	l.round.budget -= writeUnits + len(l.out)/budgetBytes
	switch {
	case s.phase == phaseGone:
	case s.mustHold():
		if s.gear != nil {
			s.gear.sendKept(nil)
		}
		s.holdReply(l.out, nil)
	case s.gear != nil && l.keepLate(s):
	case s.gear != nil:
		s.gear.sendKept(l.out)
		s.checkUnsent()
	default:
		s.conn.Write(l.out)
		s.checkUnsent()
	}
	l.out = l.out[:0]
	if cap(l.out) > outKeep {
		l.out = nil
	}
}

// checkUnsent stops the session while its client does not read.
func (s *session) checkUnsent() {
	n := s.conn.Unsent()
	if n == 0 {
		return
	}
	if s.kept.at == 0 {
		s.listKeeper()
	}
	if n > s.unsentMax() {
		s.stalled = true
	}
}

// flushFull writes what has gathered in mid-turn.
func (l *loop) flushFull(s *session) {
	if len(l.out) >= flushLeast && len(l.out) >= l.srv.acct.Allow(flushAt, flushLeast) {
		l.flush(s)
	}
}

func (l *loop) count(k beanstalk.Kind) { l.cmds[k].Add(1) }

// open makes a session for a new connection and gives it its first turn.
func (l *loop) open(c Conn, gear bool) *session {
	s := &session{loop: l, conn: c}
	s.req.Home, s.req.Owner = l, s
	s.waiter.Msg.Home, s.waiter.Msg.Owner = l, s
	l.connections.Add(1)
	l.total.Add(1)
	l.stamp()
	if gear {
		s.gear = newGear(s)
		return s
	}
	l.turn(s, (*session).join)
	l.settle()
	return s
}

// input gives s bytes from its connection, and a turn.
func (l *loop) input(s *session, b []byte) {
	last := l.batch.Now
	l.stamp()
	l.gap += (l.batch.Now - last - l.gap) / gapWeight
	l.tally[tallyInputs]++
	floor := min(l.round.left, 0)
	l.startTurn(max(l.round.left, l.fresh()))
	l.round.budget -= inputUnits
	s.input(b)
	l.flush(s)
	l.endTurn()
	l.round.left = max(l.round.left, floor) // nobody else's answer waits for it
	l.settle()
}

// event gives s a turn for something that happened to its connection.
func (l *loop) event(s *session, f func(*session)) {
	l.stamp()
	l.turn(s, f)
	l.settle()
}

package router

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/codec/beanstalk"
	"polystalk/shard"
)

// A loop is the router's side of one event loop: the sessions on it share its
// output buffer, its batch and its clock. All but Post and the counters is
// touched only by who holds own: the event loop's goroutine, or a helper.
type loop struct {
	own    sync.Mutex
	turned atomic.Int64 // when it had its last turn

	srv    *Server
	batch  shard.Batch
	out    []byte // replies of the session whose turn it is
	budget int    // of the turn, see turnBudget

	waiters []*session // to go on in a later turn
	spare   []*session

	holders []*session // those whose replies wait for a commit
	blocked []*session // those that wait for room on the disk
	freed   []*session // those that go on after holders were looked at

	// run has drain called soon, or calls it by way of help; from any goroutine.
	run func()
	// runLater is run after laterAfter, so that the loop's sockets have their
	// turn in between.
	runLater func()
	// runAfter calls run after that time; nil: no replies are kept back.
	runAfter func(time.Duration)
	late     []lateSession // the oldest first
	lateDue  shard.Time    // when sendLate has something to do, if there is any
	gap      shard.Time    // between callbacks, on average
	// awake is set while a call of drain for waiters is under way.
	awake bool

	signals signals
	tally   [numTallies]uint64 // what shown holds is as of the last settle

	outbox atomic.Pointer[shard.Message] // newest first
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

func newLoop(srv *Server, run func()) *loop {
	l := &loop{srv: srv, run: run}
	l.runLater = func() { time.AfterFunc(laterAfter, run) }
	l.runAfter = func(d time.Duration) { time.AfterFunc(d, run) }
	l.batch.Home = l
	return l
}

// enter and exit surround every callback of the event loop.
func (l *loop) enter() { l.own.Lock() }

func (l *loop) exit() {
	l.turned.Store(int64(l.batch.Now))
	l.own.Unlock()
}

// idleAfter is how long a loop has had no turn when it is taken for idle. A
// busy one is left alone: its thread is awake, and would have to wait for us.
const idleAfter = shard.Time(50 * time.Microsecond)

// help drains in place of an idle event loop: to wake its thread, on another
// core, costs more than the turn. It reports false when the loop is to do it.
// It never waits, so helpers may meet in any order, and a loop in the middle
// of a turn is not entered again.
func (l *loop) help() bool {
	if l.srv.clock.now()-shard.Time(l.turned.Load()) < idleAfter || !l.own.TryLock() {
		return false
	}
	defer l.exit()
	l.tally[tallyHelps]++
	l.drain()
	return true
}

// Post implements shard.Home: m is finished, and its session is on this loop.
// The first message of an idle outbox wakes the loop, the others ride along.
func (l *loop) Post(m *shard.Message) {
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
	return l.unfinished.Load() > 0 || l.outbox.Load() != nil
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

// signal gives s a turn for f in the loop; from any goroutine.
func (l *loop) signal(s *session, f func(*session)) {
	l.signals.mu.Lock()
	l.signals.list = append(l.signals.list, signal{s, f})
	l.signals.mu.Unlock()
	l.run()
}

// drain goes on with what came from elsewhere: finished messages, and the
// sessions whose budget was spent. The event loop calls it after run, or help does.
func (l *loop) drain() {
	l.srv.clock.stamp(&l.batch)
	var head *shard.Message
	for m := l.outbox.Swap(nil); m != nil; {
		next := m.Next.Load()
		m.Next.Store(head)
		head, m = m, next
	}
	for m := head; m != nil; {
		next := m.Next.Load()
		m.Next.Store(nil)
		l.deliver(m)
		m = next
	}
	l.letGo()
	l.sendLate()
	for _, g := range l.signals.take() {
		l.turn(g.s, g.f)
	}
	if l.awake {
		l.awake = false
		turn := l.waiters
		l.waiters = l.spare[:0]
		for i, s := range turn {
			s.queued = false
			l.unfinished.Add(-1)
			l.turn(s, (*session).again)
			turn[i] = nil
		}
		l.spare = turn
	}
	l.settle()
}

// turn gives s its turn: f runs its commands, then its replies are written.
func (l *loop) turn(s *session, f func(*session)) {
	l.budget = turnBudget
	f(s)
	l.flush(s)
}

func (l *loop) deliver(m *shard.Message) {
	s := m.Owner.(*session)
	l.budget = turnBudget
	s.completed(m)
	l.flush(s)
}

// settle ends every callback of the event loop: it delivers what this loop's
// own visits to shards have finished for its other sessions.
func (l *loop) settle() {
	for i := 0; i < len(l.batch.Local); i++ {
		m := l.batch.Local[i]
		l.batch.Local[i] = nil
		l.deliver(m)
	}
	l.batch.Local = l.batch.Local[:0]
	if len(l.waiters) > 0 && !l.awake {
		l.awake = true
		// Not at once: a task that queues itself again would keep the event
		// loop from its sockets.
		l.runLater()
	}
	l.show()
}

// laterAfter lets the sockets of the loop have their turn in between.
const laterAfter = 50 * time.Microsecond

// later puts s on the list of those that go on in a later turn.
func (l *loop) later(s *session) {
	if !s.queued {
		s.queued = true
		l.unfinished.Add(1)
		l.tally[tallyDeferred]++
		l.waiters = append(l.waiters, s)
	}
}

// flush writes the replies of s. It stops the session while the client does
// not read them.
func (l *loop) flush(s *session) {
	if len(l.out) == 0 {
		return
	}
	l.budget -= len(l.out) / budgetBytes
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
	if s.conn.Unsent() > unsentMax {
		s.stalled = true
	}
}

// flushFull writes what has gathered in mid-turn.
func (l *loop) flushFull(s *session) {
	if len(l.out) >= flushAt {
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
	l.srv.clock.stamp(&l.batch)
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
	l.srv.clock.stamp(&l.batch)
	l.gap += (l.batch.Now - last - l.gap) / gapWeight
	l.budget = turnBudget
	l.tally[tallyInputs]++
	s.input(b)
	l.flush(s)
	l.settle()
}

// event gives s a turn for something that happened to its connection.
func (l *loop) event(s *session, f func(*session)) {
	l.srv.clock.stamp(&l.batch)
	l.turn(s, f)
	l.settle()
}

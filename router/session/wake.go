package session

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/shard/core"
)

// A wakeUp has a loop's GoOn called, by its poller or by a helper.
type wakeUp struct {
	// call has the poller call GoOn, in its next pass over what is ready; from any
	// goroutine. underWay is set while such a call is.
	call     func()
	underWay atomic.Bool
	// tasks reports whether the poller has something else to do when it was woken; nil:
	// nothing may help.
	tasks func() bool
}

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

// Ask is run without help: the poller calls GoOn. It is for the loop itself, and for a
// goroutine that has left the poller something to do.
func (l *Loop) Ask() {
	w := &l.wakeUp
	if !w.underWay.Load() && w.underWay.CompareAndSwap(false, true) {
		w.call()
	}
}

// WakeFailed reports a wake that did nothing: it is tried again after that time.
func (l *Loop) WakeFailed(after time.Duration) {
	l.wakeUp.underWay.Store(false)
	time.AfterFunc(after, l.run)
}

// A loop is idle when it had no turn for idleAfter. A busy one is left alone: its thread
// is awake, and would have to wait for a helper.
const idleAfter = core.Time(50 * time.Microsecond)

// help drains an idle event loop in place of it: waking its thread on another core costs
// more than the turn. It reports false when the loop must do it itself. It never waits, so
// helpers may meet in any order, and a loop in the middle of a turn is not entered again.
func (l *Loop) help() bool {
	if l.host.Clock.Now()-core.Time(l.turned.Load()) < idleAfter || !l.TryEnter() {
		return false
	}
	defer l.Exit()
	l.GoOn(false)
	if l.wakeUp.tasks() {
		l.Ask() // the tasks found this call under way, and it cannot do them
	}
	return true
}

// signals are what other goroutines ask of a loop.
type signals struct {
	mu   sync.Mutex
	list []signal
}

// A signal names its session, or the number of a connection that may have gone, or
// neither.
type signal struct {
	s      *Session
	number uint64
	f      func(*Session)
}

func (g *signals) take() []signal {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.list
	g.list = nil
	return list
}

// giveBack puts signals that had no turn before all others.
func (g *signals) giveBack(list []signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(list, g.list...)
}

// Signal gives s a turn for f in its loop; from any goroutine.
func (l *Loop) Signal(s *Session, f func(*Session)) { l.signal(signal{s: s, f: f}) }

// SignalNumber is Signal to the session of that number; f gets nil if it is not on the loop
// any more.
func (l *Loop) SignalNumber(number uint64, f func(*Session)) { l.signal(signal{number: number, f: f}) }

// Do calls f with the loop held and no shard owned, in a turn without a session; from any
// goroutine. f may look at sessions, counts its work by Spend, and must be short: the
// loop's connections wait for it.
func (l *Loop) Do(f func()) { l.signal(signal{f: func(*Session) { f() }}) }

func (l *Loop) signal(g signal) {
	l.signals.mu.Lock()
	l.signals.list = append(l.signals.list, g)
	l.signals.mu.Unlock()
	l.run()
}

// answerSignal gives a signal its turn.
func (l *Loop) answerSignal(g signal) {
	if g.s == nil && g.number != 0 {
		g.s = l.registry.find(g.number)
	}
	if g.s != nil {
		l.turn(g.s, g.f)
		return
	}
	l.startTurn(l.fresh())
	g.f(nil)
	l.endTurn(nil)
}

package session

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/shard/core"
)

// A wakeUp makes the poller of a loop, or a helper, call the loop's GoOn.
type wakeUp struct {
	// call makes the poller call GoOn in its next pass over the ready sockets. Any goroutine
	// may use it. underWay is set until GoOn runs.
	call     func()
	underWay atomic.Bool
	// tasks reports whether the woken poller has more to do than GoOn; nil: helpers are not
	// allowed.
	tasks func() bool
}

// run makes the poller or a helper call GoOn soon. Any goroutine that owns no shard may call it.
func (l *Loop) run() {
	w := &l.wakeUp
	if w.underWay.Load() || !w.underWay.CompareAndSwap(false, true) {
		return
	}
	if w.tasks == nil || !l.help() {
		w.call()
	}
}

// Ask is run without helpers: the poller calls GoOn. The loop itself uses it, and goroutines
// that have tasks for the poller.
func (l *Loop) Ask() {
	w := &l.wakeUp
	if !w.underWay.Load() && w.underWay.CompareAndSwap(false, true) {
		w.call()
	}
}

// WakeFailed reports that a wake failed. It is retried after that time.
func (l *Loop) WakeFailed(after time.Duration) {
	l.wakeUp.underWay.Store(false)
	time.AfterFunc(after, l.run)
}

// A loop is idle after idleAfter without a turn. Helpers leave a busy loop alone: its thread
// is awake and would have to wait for them.
const idleAfter = core.Time(50 * time.Microsecond)

// help calls GoOn for an idle loop, because waking the loop's thread on another core costs
// more. It returns false if the loop must do it itself. It never waits for the loop, so
// helpers cannot deadlock, and it never enters a loop in the middle of a turn.
func (l *Loop) help() bool {
	if l.host.Clock.Now()-core.Time(l.turned.Load()) < idleAfter || !l.TryEnter() {
		return false
	}
	defer l.Exit()
	l.GoOn(false)
	if l.wakeUp.tasks() {
		l.Ask() // only the poller can do the tasks
	}
	return true
}

// signals are requests of other goroutines to a loop.
type signals struct {
	mu   sync.Mutex
	list []signal
}

// A signal has a session, or the number of a session that may be gone, or neither.
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

// giveBack returns signals that had no turn to the front of the list.
func (g *signals) giveBack(list []signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(list, g.list...)
}

// Signal calls f in a turn of s on its loop. Any goroutine may call Signal.
func (l *Loop) Signal(s *Session, f func(*Session)) { l.signal(signal{s: s, f: f}) }

// SignalNumber is Signal for the session with that number; f gets nil if it is gone.
func (l *Loop) SignalNumber(number uint64, f func(*Session)) { l.signal(signal{number: number, f: f}) }

// Do calls f in a turn without a session, with the loop held and no shard owned. f may read
// sessions and counts its work by Spend. It must be short, because the loop's connections
// wait. Any goroutine may call Do.
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

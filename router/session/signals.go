package session

import "sync"

// signals are what other goroutines tell about connections.
type signals struct {
	mu   sync.Mutex
	list []signal
}

// A signal names its session, or the number of a connection that may have gone.
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

// giveBack puts those that take gave and that had no turn before all others.
func (g *signals) giveBack(list []signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(list, g.list...)
}

// Signal gives s a turn for f in its loop; from any goroutine.
func (l *Loop) Signal(s *Session, f func(*Session)) { l.signal(signal{s: s, f: f}) }

// SignalNumber is Signal to the session of that number; f gets nil if there is none on the
// loop any more.
func (l *Loop) SignalNumber(number uint64, f func(*Session)) { l.signal(signal{number: number, f: f}) }

// Do has f called by who has the loop, in a turn that is nobody's, with no shard owned. f
// may look at sessions, counts what it does by Spend, and must not take long: the loop's
// connections wait for it. It may be called from any goroutine.
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
		g.s = l.roll.find(g.number)
	}
	if g.s != nil {
		l.turn(g.s, g.f)
		return
	}
	l.startTurn(l.fresh())
	g.f(nil)
	l.endTurn(nil)
}

package session

import "sync"

// signals are what other goroutines tell about connections.
type signals struct {
	mu   sync.Mutex
	list []signal
}

type signal struct {
	s *Session
	f func(*Session)
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
func (l *Loop) Signal(s *Session, f func(*Session)) {
	l.signals.mu.Lock()
	l.signals.list = append(l.signals.list, signal{s, f})
	l.signals.mu.Unlock()
	l.run()
}

package transport

import (
	"net"
	"slices"
	"sync"
)

// lobbyMax connections are kept that have not shown who they are.
const lobbyMax = 64

// A lobby is where connections are until they have shown who they are, which a node does at
// once. When it is full the one that has waited longest goes: a crowd that says nothing does
// not keep out who does.
type lobby struct {
	mu      sync.Mutex
	waiting []net.Conn // in the order in which they came
}

// enter takes a connection in, and gives the one that has to go for it, or nil.
func (l *lobby) enter(c net.Conn) (out net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == lobbyMax {
		out = l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	l.waiting = append(l.waiting, c)
	return out
}

// leave takes a connection out.
func (l *lobby) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(w net.Conn) bool { return w == c })
}

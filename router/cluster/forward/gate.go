package forward

import (
	"context"
	"sync"
	"time"
)

const (
	// attemptsMax bounds the concurrent attempts to reach the leader: clients that have waited for
	// an election must not keep other servers from its port.
	attemptsMax = 8
	// After a failed attempt one client tries for all, after a pause that doubles between these two.
	attemptPauseMin = 10 * time.Millisecond
	attemptPauseMax = 50 * time.Millisecond
)

// A gate says which waiting clients may try to reach the leader: attemptsMax at a time while it is
// reached, else one after each pause.
type gate struct {
	open chan struct{} // one element for each attempt

	mu      sync.Mutex
	wait    time.Duration // between attempts; 0: the leader is reached
	next    time.Time     // of the next attempt
	trying  bool          // there is one, while the leader is not reached
	changed chan struct{} // closed by the next change
}

func newGate() *gate {
	return &gate{open: make(chan struct{}, attemptsMax), changed: make(chan struct{})}
}

// change wakes all waiting clients. g.mu is held.
func (g *gate) change() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// reset begins again with another leader.
func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = 0
	g.change()
}

// pass waits until the caller may make an attempt, after which it calls done. It reports false if ctx
// has ended or stop is closed.
func (g *gate) pass(ctx context.Context, stop <-chan struct{}) bool {
	for {
		g.mu.Lock()
		var due <-chan time.Time
		changed, open := g.changed, g.open
		switch left := time.Until(g.next); {
		case g.wait == 0:
		case g.trying:
			open = nil
		case left > 0:
			due, open = time.After(left), nil
		default:
			g.trying = true
			g.mu.Unlock()
			select {
			case g.open <- struct{}{}:
				return true
			case <-ctx.Done():
			case <-stop:
			}
			g.mu.Lock()
			g.trying = false
			g.change()
			g.mu.Unlock()
			return false
		}
		g.mu.Unlock()
		select {
		case open <- struct{}{}:
			return true
		case <-due:
		case <-changed:
		case <-ctx.Done():
			return false
		case <-stop:
			return false
		}
	}
}

// done ends an attempt, which reached the leader or not.
func (g *gate) done(reached bool) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := time.Duration(0)
	if !reached {
		wait = min(max(attemptPauseMin, 2*g.wait), attemptPauseMax)
	}
	if wait == 0 && g.wait == 0 {
		return
	}
	g.wait, g.trying = wait, false
	g.next = time.Now().Add(wait)
	g.change()
}

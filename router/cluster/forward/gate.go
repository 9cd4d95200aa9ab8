package forward

import (
	"context"
	"sync"
	"time"
)

const (
	// openMax clients are handed on at a time: a crowd that comes when a leader is found
	// is no crowd at that one's port, where nodes have to get through as well.
	openMax = 8
	// After an attempt that failed the next is made between these two times later, by one
	// client for all that wait.
	attemptMin = 10 * time.Millisecond
	attemptMax = 50 * time.Millisecond
)

// A gate says which of the clients that wait may try to reach the leader. As long as it is
// reached, all may, some at a time; else one of them now and then.
type gate struct {
	open chan struct{} // has an element for each attempt under way

	mu       sync.Mutex
	wait     time.Duration // from one attempt to the next; 0: the leader is reached
	next     time.Time     // when the next attempt is due
	attempts bool          // one is under way, while the leader is not reached
	changed  chan struct{} // closed by the next change
}

func newGate() *gate {
	return &gate{open: make(chan struct{}, openMax), changed: make(chan struct{})}
}

// change notes what has changed, and has all look again. g.mu is held.
func (g *gate) change() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// reset begins anew, with another leader.
func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = 0
	g.change()
}

// pass waits until the caller may make an attempt, which is to be followed by done; false:
// ctx has ended, or stop is closed.
func (g *gate) pass(ctx context.Context, stop <-chan struct{}) bool {
	for {
		g.mu.Lock()
		var due <-chan time.Time
		changed, open := g.changed, g.open
		switch left := time.Until(g.next); {
		case g.wait == 0:
		case g.attempts:
			open = nil
		case left > 0:
			due, open = time.After(left), nil
		default:
			g.attempts = true
			g.mu.Unlock()
			select {
			case g.open <- struct{}{}:
				return true
			case <-ctx.Done():
			case <-stop:
			}
			g.mu.Lock()
			g.attempts = false
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

// done ends an attempt, and says whether it has reached the leader.
func (g *gate) done(reached bool) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := time.Duration(0)
	if !reached {
		wait = min(max(attemptMin, 2*g.wait), attemptMax)
	}
	if wait == 0 && g.wait == 0 {
		return
	}
	g.wait, g.attempts = wait, false
	g.next = time.Now().Add(wait)
	g.change()
}

package router

import (
	"context"
	"time"
)

// shutdown stops accepting, waits until what is unsent is sent or ctx ends,
// and ends the loops.
func (n *network) shutdown(ctx context.Context) error {
	n.mu.Lock()
	n.stopping = true
	for _, l := range n.listeners {
		l.close()
	}
	n.mu.Unlock()
	n.accepting.Wait()
	if n.client == nil {
		return nil
	}
	// Most commands are answered in the turn that reads them. Under way can be
	// operations in busy shards, turns put off, and replies that clients are
	// slow to read: asked for last, since what was finished may become one.
	for ctx.Err() == nil && (n.unfinished() || n.unsent()) {
		time.Sleep(5 * time.Millisecond)
	}
	err := n.client.Stop()
	n.stopWakers()
	// What paused connections have, and what was not sent in time.
	n.eachLane(func(l *lane) bool { l.drop(); return true })
	return err
}

func (n *network) eachLane(f func(*lane) bool) {
	n.byLane.Range(func(l, _ any) bool { return f(l.(*lane)) })
}

// unsent reports whether replies wait for their clients to read. A lane
// without any belongs to a paused connection, whose client may well wait for
// ever.
func (n *network) unsent() (some bool) {
	n.eachLane(func(l *lane) bool {
		some = l.len() > 0
		return !some
	})
	return some
}

// unfinished reports whether a loop has something under way or put off.
func (n *network) unfinished() bool {
	for _, l := range n.loops {
		if l.hasWork() {
			return true
		}
	}
	return false
}

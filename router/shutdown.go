package router

import (
	"context"
	"maps"
	"slices"
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
	// What was not sent in time.
	n.mu.Lock()
	left := slices.Collect(maps.Keys(n.without))
	n.mu.Unlock()
	for _, k := range left {
		k.loop.enter()
		k.Drop()
		k.loop.exit()
	}
	n.pump.stop()
	return err
}

// unsent reports whether replies wait for their clients to read.
func (n *network) unsent() bool { return n.behind.Load() > 0 }

// unfinished reports whether a loop has something under way or put off.
func (n *network) unfinished() bool {
	for _, l := range n.loops {
		if l.hasWork() {
			return true
		}
	}
	return false
}

package reactor

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Shutdown stops accepting, waits until what was received is answered and what is unsent is
// sent, or ctx ends, and ends the event loops and every connection. The Reactor is of no
// use afterwards.
func (r *Reactor) Shutdown(ctx context.Context) error {
	r.Refuse(nil)
	r.AwaitServe()
	if r.client == nil {
		return nil
	}
	// Most commands are answered in the turn that reads them. Under way can be operations
	// in busy shards, turns put off, and replies that clients are slow to read: asked for
	// last, since what was finished may become one.
	for ctx.Err() == nil && (r.isBusy() || r.behind.Load() > 0) {
		time.Sleep(5 * time.Millisecond)
	}
	err := r.client.Stop()
	r.stopWakers()
	r.dropDetached()
	r.notifier.stop()
	return err
}

// isBusy reports whether a loop has something under way or put off.
func (r *Reactor) isBusy() bool {
	for _, l := range r.loops {
		if l.HasWork() {
			return true
		}
	}
	return false
}

// dropDetached ends the connections that were not sent everything in time.
func (r *Reactor) dropDetached() {
	r.mu.Lock()
	left := slices.Collect(maps.Keys(r.detached))
	r.mu.Unlock()
	for _, k := range left {
		k.loop.Enter()
		k.Drop()
		k.loop.Exit()
	}
}

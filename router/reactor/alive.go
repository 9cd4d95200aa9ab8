package reactor

import (
	"context"
	"fmt"
	"time"
)

// Alive waits until every event loop has had a turn of its poller's since the call, which
// takes no longer than the turn that is under way. It returns an error that names those
// that had none before ctx ended. It may be called by anyone once Start has returned.
func (r *Reactor) Alive(ctx context.Context) error {
	before := make([]uint64, len(r.wakers))
	for i, w := range r.wakers {
		before[i] = w.turns.Load()
	}
	tick := time.NewTicker(aliveLook)
	defer tick.Stop()
	for {
		var late []int
		for i, w := range r.wakers {
			if w.turns.Load() == before[i] {
				late = append(late, w.loop.Index)
				w.loop.Ask() // again: one that is under way may be a helper's, who is not the poller
			}
		}
		if late == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the event loops %v have not turned", late)
		case <-tick.C:
		}
	}
}

// aliveLook is how often it is looked whether they have.
const aliveLook = time.Millisecond

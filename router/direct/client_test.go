package direct

import (
	"context"

	"polystalk/router/ops"
	"polystalk/shard/core"
)

// A client watches tubes and reserves jobs, as a connection does: a job that it has reserved
// is its own until it deletes the job, leaves, or the time to run ends.
type client struct {
	*Caller
	watched ops.WatchList
	handles ops.Handles
	reserve *ops.Reserve
}

// Spend, SpendOne and LookMost implement ops.Pace: a client has all the time.
func (k *client) Spend(int)      {}
func (k *client) SpendOne() bool { return true }
func (k *client) LookMost() int  { return ops.LookMost }

// visit runs Op on a shard, and updates the client's handle there.
func (k *client) visit(shard int) (*core.Reply, *ops.Handle) {
	r := k.Do(shard)
	return r, k.handles.Learn(shard, len(k.m.Shards()), r)
}

// client makes a client that watches the tubes t0, t1 and so on for which watches is true.
func (h *house) client(watches []bool) *client {
	k := &client{Caller: h.caller()}
	k.reserve = ops.NewReserve(k.m, &k.batch, k, &k.watched, &k.handles)
	k.reserve.Waiter.Msg.Home, k.reserve.Waiter.Msg.Owner = k.Caller, k
	k.watchAll(h, watches)
	return k
}

func (k *client) watchAll(h *house, watches []bool) {
	for i, watch := range watches {
		if !watch {
			continue
		}
		r, handle := k.visit(k.watched.Watch(k.m, &k.handles, []byte(tubeName(i)), k.Op()))
		if r.Status != core.StatusOK {
			h.t.Errorf("watch: status %d", r.Status)
			return
		}
		k.watched.Add(r.Face, handle)
		for shard := k.watched.Publish(k.m, r.Mirror, k.Op()); shard != ops.None; shard = k.watched.Publish(k.m, r.Mirror, k.Op()) {
			r, _ = k.visit(shard)
		}
	}
}

// take reserves the best job of all watched tubes. It waits at most d, and no longer than ctx.
func (k *client) take(ctx context.Context, d core.Time) (id core.JobID, body []byte, status core.Status) {
	k.clock.Stamp(&k.batch)
	op := k.Op()
	var r *core.Reply
	for s := k.reserve.Start(d, op); ; {
		if s.Said != core.StatusOK {
			status = s.Said
			if status == core.StatusReserved {
				id, body = r.ID, append([]byte(nil), r.Body...)
				for _, p := range r.Large {
					body = append(body, p...)
				}
			}
		}
		switch s.Next {
		case ops.Done:
			return id, body, status
		case ops.Visit:
			var h *ops.Handle
			r, h = k.visit(s.Shard)
			s = k.reserve.Took(r, h, op)
		case ops.Look, ops.Later:
			s = k.reserve.Look(op)
		case ops.Wait:
			s, r = k.wait(ctx, op)
		}
	}
}

// wait waits for the wake-up of a reserve, or the end of ctx.
func (k *client) wait(ctx context.Context, op *core.Op) (ops.Step, *core.Reply) {
	m := &k.reserve.Waiter.Msg
	end := ctx.Done()
	for !k.await(m) {
		select {
		case <-k.came:
		case <-end:
			if s, ok := k.reserve.GiveUp(op); ok {
				return s, nil
			}
			end = nil // a shard was quicker
		}
	}
	r := m.Reply
	r.Body = append([]byte(nil), r.Body...)
	m.Done()
	h := k.handles.Learn(m.From, len(k.m.Shards()), &r)
	return k.reserve.Woken(&r, h, op), &r
}

// remove deletes a job that no other client has reserved. It reports whether there was one.
func (k *client) remove(id core.JobID) bool {
	shard, ok := k.m.OfJob(id)
	if !ok {
		return false
	}
	k.Op().Delete(k.handles.Client(shard), id)
	if r, _ := k.visit(shard); r.Status != core.StatusOK {
		return false
	}
	k.m.IDs().Finish(id)
	return true
}

// leave gives back everything that the client has. It can be used again, as a new client.
func (k *client) leave() {
	var l ops.Leave
	used := ops.Tube{Shard: ops.None}
	for h := l.Start(k.m, &k.handles, &k.watched, used, k.Op()); h.Shard != ops.None; {
		r, _ := k.visit(h.Shard)
		h = l.Next(r, k.Op())
	}
	k.handles = ops.Handles{}
}

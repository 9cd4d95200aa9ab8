package direct

import (
	"context"
	"errors"

	"polystalk/router/ops"
	"polystalk/shard/core"
)

// A Client of the shards watches tubes and reserves jobs, as a connection does: what it has
// reserved is its own until it is deleted, or given back by Leave or the end of its time to
// run. It uses the Caller that it was made with, and belongs to the same goroutine.
type Client struct {
	*Caller
	watched ops.WatchList
	handles ops.Handles
	reserve *ops.Reserve
}

// A Job is what Reserve brings. Its body is the caller's.
type Job struct {
	ID   core.JobID
	Body []byte
}

// ErrNoMemory says that a shard has no memory for a watch.
var ErrNoMemory = errors.New("out of memory for a watch list")

// NewClient makes a client that watches nothing yet.
func (c *Caller) NewClient() *Client {
	k := &Client{Caller: c}
	k.reserve = ops.NewReserve(c.m, &c.batch, c, &k.watched, &k.handles)
	m := &k.reserve.Waiter.Msg
	m.Home, m.Owner = c, k
	return k
}

// visit runs Op on a shard, and notes what the reply tells of the client there.
func (k *Client) visit(shard int) (*core.Reply, *ops.Handle) {
	r := k.Do(shard)
	return r, k.handles.Learn(shard, len(k.m.Shards()), r)
}

// Watch adds a tube to the watch list, unless it is on it.
func (k *Client) Watch(name string) error {
	defer k.msg.Done()
	if k.watched.Find([]byte(name)) >= 0 {
		return nil
	}
	r, h := k.visit(k.watched.Watch(k.m, &k.handles, []byte(name), k.Op()))
	if r.Status != core.StatusOK {
		return ErrNoMemory
	}
	k.watched.Add(r.Face, h)
	for {
		shard := k.watched.Publish(k.m, r.Mirror, k.Op())
		if shard == ops.None {
			return nil
		}
		r, _ = k.visit(shard)
	}
}

// Reserve takes the best job of all tubes that are watched, of which there must be one. It
// waits for one at most d, and no longer than ctx. The status is StatusReserved, or else
// StatusTimedOut or StatusDeadlineSoon.
func (k *Client) Reserve(ctx context.Context, d core.Time) (job Job, status core.Status) {
	defer k.msg.Done()
	k.clock.Stamp(&k.batch)
	op := k.Op()
	var r *core.Reply
	for s := k.reserve.Start(d, op); ; {
		if s.Said != core.StatusOK {
			status = s.Said
			if status == core.StatusReserved {
				job = jobOf(r)
			}
		}
		switch s.Next {
		case ops.Done:
			return job, status
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

// wait is for the wake-up of a reserve that waits, or the end of ctx.
func (k *Client) wait(ctx context.Context, op *core.Op) (ops.Step, *core.Reply) {
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
	if r.Body != nil {
		r.Body = append([]byte(nil), r.Body...)
	}
	m.Done()
	h := k.handles.Learn(m.From, len(k.m.Shards()), &r)
	return k.reserve.Woken(&r, h, op), &r
}

func jobOf(r *core.Reply) Job {
	j := Job{ID: r.ID, Body: append([]byte(nil), r.Body...)}
	for _, p := range r.Large {
		j.Body = append(j.Body, p...)
	}
	return j
}

// Delete deletes a job that nobody else has reserved. It reports whether there was one.
func (k *Client) Delete(id core.JobID) bool {
	defer k.msg.Done()
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

// Leave gives back all that the client has. It may go on to be used, as one that is new.
func (k *Client) Leave() {
	defer k.msg.Done()
	var l ops.Leave
	used := ops.Tube{Shard: ops.None}
	for h := l.Start(k.m, &k.handles, &k.watched, used, k.Op()); h.Shard != ops.None; {
		r, _ := k.visit(h.Shard)
		h = l.Next(r, k.Op())
	}
	k.handles = ops.Handles{}
}

// Package direct runs operations on shards from goroutines that may block: operators'
// requests, and a shutdown that waits for the last job. Event loops must not use it, because
// connections wait for them.
//
// If a shard is free, a Caller runs the operation in place, as an event loop does. If it is
// busy, the Caller leaves a message and sleeps until the reply arrives. The reply has the
// commit that it depends on: wait for the commit at a Gate before you report a change, and
// ask the Gate for room before a change that needs space.
package direct

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// A Caller belongs to one goroutine at a time.
type Caller struct {
	m     *ops.Map
	clock *ops.Clock
	batch shard.Batch
	msg   core.Message

	inbox atomic.Pointer[core.Message] // messages that have come back, newest first
	came  chan struct{}                // has one entry if inbox may have a message
	taken []*core.Message              // taken from inbox, but not yet awaited
	turn  func()                       // see TakeTurns

	// Steps is the histogram of the times for which Do and Visit have owned shards; nil: none. The time
	// of an operation that a busy shard's owner runs is not included.
	Steps *stats.Histogram
}

// New makes a Caller. The shards of m must have been started.
func New(m *ops.Map, k *ops.Clock) *Caller {
	c := &Caller{m: m, clock: k, came: make(chan struct{}, 1)}
	c.batch.Home = c
	c.msg.Home, c.msg.Owner = c, c
	return c
}

// TakeTurns makes c call turn repeatedly, instead of sleeping, until a shard has replied. In a
// simulator with one goroutine, turn runs the other callers and the shards.
func (c *Caller) TakeTurns(turn func()) { c.turn = turn }

// Post implements core.Home. Any goroutine may call it.
func (c *Caller) Post(m *core.Message) {
	for {
		head := c.inbox.Load()
		m.Next.Store(head)
		if c.inbox.CompareAndSwap(head, m) {
			break
		}
	}
	select {
	case c.came <- struct{}{}:
	default:
	}
}

// Op returns the operation that Do runs next. The caller fills it. Op drops all references of the
// last operation and its reply.
func (c *Caller) Op() *core.Op {
	c.msg.Done()
	c.msg.Op.Operator, c.msg.Op.Figures = nil, core.Figures{}
	return &c.msg.Op
}

// Do runs Op on a shard and waits for the reply, which is valid until the next Op or Do. The
// change may not be durable yet: see core.Reply.Commit.
func (c *Caller) Do(i int) *core.Reply {
	c.clock.Stamp(&c.batch)
	sh := c.m.Shard(i)
	if sh.Own(&c.batch) {
		owned := time.Now()
		sh.Apply(&c.batch, &c.msg.Op, &c.msg.Reply)
		c.msg.From = i
		c.msg.KeepBody()
		sh.Release(&c.batch)
		if c.Steps != nil {
			c.Steps.Took(time.Since(owned))
		}
		return &c.msg.Reply
	}
	c.msg.Keep()
	sh.Send(&c.batch, &c.msg)
	for !c.await(&c.msg) {
		if c.turn != nil {
			c.turn()
		} else {
			<-c.came
		}
	}
	return &c.msg.Reply
}

// DoTube is Do on the shard of a tube.
func (c *Caller) DoTube(name string) *core.Reply { return c.Do(c.m.OfTube([]byte(name))) }

// DoJob is Do on the shard of a job. The status is StatusNotFound if no shard has the job.
func (c *Caller) DoJob(id core.JobID) *core.Reply {
	if i, ok := c.m.OfJob(id); ok {
		return c.Do(i)
	}
	c.msg.Reply = core.Reply{Status: core.StatusNotFound}
	return &c.msg.Reply
}

// visitAgain is the time between two attempts of Visit to own a shard.
const visitAgain = 20 * time.Microsecond

// Visit calls f, which must not block, while it owns shard i. It tries at least once, and returns
// false if ctx ends before the shard is free.
func (c *Caller) Visit(ctx context.Context, i int, f func(*shard.Shard)) bool {
	sh := c.m.Shard(i)
	for {
		c.clock.Stamp(&c.batch)
		if sh.Own(&c.batch) {
			owned := time.Now()
			f(sh)
			sh.Release(&c.batch)
			if c.Steps != nil {
				c.Steps.Took(time.Since(owned))
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if c.turn != nil {
			c.turn()
		} else {
			time.Sleep(visitAgain)
		}
	}
}

// await reports whether m has returned.
func (c *Caller) await(m *core.Message) bool {
	for k := c.inbox.Swap(nil); k != nil; {
		next := k.Next.Load()
		k.Next.Store(nil)
		c.taken = append(c.taken, k)
		k = next
	}
	c.taken = append(c.taken, c.batch.Local...)
	clear(c.batch.Local)
	c.batch.Local = c.batch.Local[:0]
	i := slices.Index(c.taken, m)
	if i >= 0 {
		c.taken = slices.Delete(c.taken, i, i+1)
	}
	return i >= 0
}

// Each runs operations on all shards, one shard after the other, each until its reply is not
// StatusMore. fill fills an operation; first is true for the first one on a shard. take gets the
// reply and reports whether to continue.
func (c *Caller) Each(fill func(op *core.Op, first bool), take func(r *core.Reply) (goOn bool)) {
	var w ops.Walk
	first := true
	for h := (ops.Hop{Shard: w.Start(c.m)}); h.Shard != ops.None; {
		fill(c.Op(), first)
		r := c.Do(h.Shard)
		if !take(r) {
			break
		}
		next := w.Next(r.Status)
		first = next.Shard != h.Shard
		h = next
	}
	c.Op()
}

// Counts returns the sums over all shards.
func (c *Caller) Counts() core.Counts {
	var sum, one core.Counts
	c.Each(func(op *core.Op, _ bool) { op.Stats(&one) }, func(*core.Reply) bool {
		sum.Add(&one)
		return true
	})
	return sum
}

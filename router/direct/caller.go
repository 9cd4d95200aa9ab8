// Package direct runs operations on shards from goroutines that may block: operators'
// requests, and the end of a server that waits for its last job. Event loops must not use
// it, since connections wait for them.
//
// A Caller takes a free shard and runs the operation in place, as an event loop does. It
// leaves a message with a busy shard and sleeps until the reply has come. The reply names
// the commit that it depends on: before a change is reported, wait for that commit at a
// Gate, and before a change that takes space, ask the Gate for room.
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
	taken []*core.Message              // out of inbox, but not yet waited for
	turn  func()                       // see TakeTurns

	// Steps counts how long Do has owned shards; nil: nothing is counted. What Do leaves
	// to a busy shard's owner is part of the owner's time.
	Steps *stats.Histogram
}

// New makes a Caller for the shards of a server that has started them.
func New(m *ops.Map, k *ops.Clock) *Caller {
	c := &Caller{m: m, clock: k, came: make(chan struct{}, 1)}
	c.batch.Home = c
	c.msg.Home, c.msg.Owner = c, c
	return c
}

// TakeTurns makes c call turn repeatedly, instead of sleeping, until a shard has replied. A
// simulator that runs callers and shards in one goroutine lets the others go on in turn.
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

// Op returns the operation that Do runs next, for the caller to fill. It drops everything
// that the last operation and its reply refer to.
func (c *Caller) Op() *core.Op {
	c.msg.Done()
	c.msg.Op.Operator, c.msg.Op.Figures = nil, core.Figures{}
	return &c.msg.Op
}

// Do runs Op on a shard and waits for the reply, which is valid until the next Op or Do. A
// change that it reports may not be durable yet: see core.Reply.Commit.
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

// visitAgain is how long Visit leaves a shard to its owner.
const visitAgain = 20 * time.Microsecond

// Visit calls f, which must not block, while it owns shard i. It tries a shard at least
// once, and returns false when ctx has ended before the shard was free.
func (c *Caller) Visit(ctx context.Context, i int, f func(*shard.Shard)) bool {
	sh := c.m.Shard(i)
	for {
		c.clock.Stamp(&c.batch)
		if sh.Own(&c.batch) {
			f(sh)
			sh.Release(&c.batch)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		time.Sleep(visitAgain)
	}
}

// await reports whether m has come back.
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

// Each runs operations on all shards, one shard after the other, each until it has no more.
// fill fills an operation; first is true for the first one on a shard. take gets the reply
// and reports whether to go on.
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

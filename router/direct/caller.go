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

	inbox atomic.Pointer[core.Message] // what has come back, newest first
	came  chan struct{}                // has one entry if something is in inbox
	taken []*core.Message              // out of inbox, and not yet waited for
	asked *core.OperatorOp             // by FlowOf, for tens of thousands of tubes; nil: never yet
	turn  func()                       // instead of sleeping until something came; see TakeTurns

	// Steps counts how long shards were owned by Do, where it has owned one: what it leaves
	// to a shard's owner is part of what that has to do. nil: nobody wants to know.
	Steps *stats.Histogram
}

// New makes a Caller for the shards of a server, whose goroutines run.
func New(m *ops.Map, k *ops.Clock) *Caller {
	c := &Caller{m: m, clock: k, came: make(chan struct{}, 1)}
	c.batch.Home = c
	c.msg.Home, c.msg.Owner = c, c
	return c
}

// TakeTurns has c call turn, again and again, instead of sleeping until a shard has answered:
// for who runs callers and shards in one goroutine, and lets the others go on in turn.
func (c *Caller) TakeTurns(turn func()) { c.turn = turn }

// Post implements core.Home; from any goroutine.
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

// Op is the operation that Do runs next; its methods fill it. The last reply is not good
// any more.
func (c *Caller) Op() *core.Op {
	c.msg.Done()
	return &c.msg.Op
}

// Do runs Op on a shard, and waits for the reply, which is good until the next Do or Op.
// The change it tells of may not be durable yet: see core.Reply.Commit.
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
		c.sleep()
	}
	return &c.msg.Reply
}

// sleep lasts until something may have come.
func (c *Caller) sleep() {
	if c.turn != nil {
		c.turn()
		return
	}
	<-c.came
}

// Visit has f called, which must not wait, while it owns a shard. It reports false when ctx
// has ended before the shard was free; one that is free is visited even so.
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

// visitAgain is how long Visit leaves a shard to its owner.
const visitAgain = 20 * time.Microsecond

// await reports whether m has come.
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

// Each runs operations on all shards, one after the other, each until it has no more: fill
// says with what, first being true for the first one on a shard, and take takes the reply;
// it reports whether to go on.
func (c *Caller) Each(fill func(op *core.Op, first bool), take func(shard int, r *core.Reply) (more bool)) {
	var w ops.Walk
	first := true
	for h := (ops.Hop{Shard: w.Start(c.m)}); h.Shard != ops.None; {
		fill(c.Op(), first)
		r := c.Do(h.Shard)
		more := take(h.Shard, r)
		status := r.Status
		c.msg.Done()
		if !more {
			return
		}
		next := w.Next(status)
		first = next.Shard != h.Shard
		h = next
	}
}

// Counts sums up all shards.
func (c *Caller) Counts() core.Counts {
	var sum, one core.Counts
	c.Each(func(op *core.Op, _ bool) { op.Stats(&one) }, func(int, *core.Reply) bool {
		sum.Add(&one)
		return true
	})
	return sum
}

// Flow is what has passed through all shards.
func (c *Caller) Flow() core.Flow {
	var sum core.Flow
	var x core.OperatorOp
	c.Each(func(op *core.Op, _ bool) { op.AskFlow(nil, &x) }, func(int, *core.Reply) bool {
		sum.Add(&x.Flow)
		return true
	})
	c.Op().Operator = nil
	return sum
}

// FlowOf is what has passed through a tube; false: there is none of that name.
func (c *Caller) FlowOf(tube []byte) (f core.Flow, ok bool) {
	if c.asked == nil {
		c.asked = new(core.OperatorOp)
	}
	c.asked.Flow = core.Flow{}
	c.Op().AskFlow(tube, c.asked)
	ok = c.Do(c.m.OfTube(tube)).Status == core.StatusOK
	c.Op().Operator = nil
	return c.asked.Flow, ok
}

// Spend, SpendOne and LookMost implement ops.Pace: a Caller has all the time there is.
func (c *Caller) Spend(int)             {}
func (c *Caller) SpendOne() (goOn bool) { return true }
func (c *Caller) LookMost() int         { return ops.LookMost }

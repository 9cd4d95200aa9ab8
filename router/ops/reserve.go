package ops

import (
	"fmt"

	"polystalk/shard"
	"polystalk/shard/core"
)

// A Reserve takes the best ready job of all tubes on a client's watch list, and waits for
// one if there is none.
//
// A watch list within one shard takes one visit: the shard serves or queues the client. A
// list over several shards goes like this:
//
//	probe     survey the shards, and visit the one with the best job. It serves the job
//	          if it is still the best of all; else survey the shards again.
//	margin    if nothing is ready and the client does not want to wait: ask the shards
//	          where it holds jobs whether DEADLINE_SOON is due.
//	register  else queue the client in every shard with watched tubes or held jobs, with a
//	          closed wait (core.Waiter). Each shard looks for a ready job while it queues
//	          the client. When it is queued in all shards, open the wait: one claim decides
//	          which shard serves it.
//	cancel    leave the queues of the other shards.
//
// The proof that no job is ready while a client waits. The wait was closed at time C, or
// reset. Then each shard was visited, had no job for the client, and queued it at its tubes.
// A job that became ready in a shard after its visit found the client in the queue and called
// it. So if the wait is opened at time O without a call, no watched tube has a job. A job that
// becomes ready later finds an open wait in the queue, and claims it before another client can
// get the job. So a claim serves the client with the best job of all, and a claim that ends a
// wait with TIMED_OUT or DEADLINE_SOON happens when no job is ready. A client that was called
// surveys the shards again, and keeps its place in the queues.
//
// There is one exception. If a client watches tubes of one shard only and holds jobs in other
// shards, DEADLINE_SOON is checked at another time than the ready job.
//
// A client has one Reserve, made by NewReserve, and uses it for all its reserves in sequence.
type Reserve struct {
	// Waiter is the wait as the shards know it. Its Msg is the wake-up: the client sets its
	// Home and Owner, and passes it to Woken.
	Waiter core.Waiter

	m       *Map
	batch   *shard.Batch
	pace    Pace
	list    *WatchList
	handles *Handles

	survey  *survey // nil: no reserve has needed several shards yet
	purpose purpose // of the current visit
	early   bool    // the wake-up arrived before Took has returned Wait; see Early
	shard   int     // of the current visit
	next    int     // index of the next handle to ask
	seq     uint64  // the wait's number; zero: none is armed

	wait core.Time // the wanted wait: zero, some seconds, or core.Never
	end  core.Time // the end of the wait in time awake
}

// A Pace limits the work of a turn. Its units are as in session.Loop: about half a microsecond.
type Pace interface {
	Spend(units int)
	// SpendOne counts one unit, and reports whether the turn may continue.
	SpendOne() (goOn bool)
	// LookMost is how many tubes of a long list a survey reads before it spends a unit.
	LookMost() int
}

// A purpose is the reason for a visit.
type purpose uint8

const (
	alone    purpose = iota // everything is in one shard
	probe                   // of the shard with the best published key
	margin                  // check whether DEADLINE_SOON is due, before TIMED_OUT
	register                // wait in one of several shards
	cancel                  // leave the queues of a shard that did not serve the client
)

// Next says what the caller of a Reserve must do next.
type Next uint8

const (
	// Done: the reserve is over, and Start may begin the next.
	Done Next = iota
	// Visit: the op is filled. Run it on Step.Shard and pass the reply to Took.
	Visit
	// Look: call Look as soon as no shard is owned.
	Look
	// Later: call Look in a later turn.
	Later
	// Wait: the client is in the queues. Expect a wake-up, or call GiveUp.
	Wait
)

// A Step is the next step of a Reserve.
type Step struct {
	Next  Next
	Shard int // of Visit

	// Said is the reply to send to the client now, before the next step: StatusReserved (the
	// job is in the last reply), StatusTimedOut or StatusDeadlineSoon. StatusOK: no reply yet.
	Said core.Status
}

// NewReserve makes a Reserve for the client with the handles h and the watch list. b is the batch
// with which shards are visited.
func NewReserve(m *Map, b *shard.Batch, p Pace, list *WatchList, h *Handles) *Reserve {
	return &Reserve{m: m, batch: b, pace: p, list: list, handles: h}
}

// Start begins a reserve that waits at most d.
func (r *Reserve) Start(d core.Time, op *core.Op) Step {
	r.wait = d
	r.end = core.Never
	if d != core.Never {
		r.end = r.batch.Now - r.batch.Slept + d
	}
	watching, spread := -1, false
	for i := range r.handles.list {
		switch k := &r.handles.list[i]; {
		case k.Watching == 0:
			spread = spread || k.Held > 0
		case watching == -1:
			watching = i
		default:
			spread = true
		}
	}
	if !spread {
		return r.visit(&r.handles.list[watching], alone, op)
	}
	// A reserve within one shard that was served at once has left its wait armed and open.
	// This reserve needs a closed one.
	r.seq = 0
	return r.lookAnew(op)
}

// visit fills op for the visit to one shard.
func (r *Reserve) visit(k *Handle, why purpose, op *core.Op) Step {
	switch why {
	case alone:
		if r.wait == 0 {
			op.Reserve(k.Client)
			break
		}
		if r.seq == 0 {
			r.seq = r.Waiter.Arm()
		}
		op.ReserveOrWait(k.Client, r.seq, r.end)
	case register:
		if r.seq == 0 {
			r.seq = r.Waiter.ArmClosed()
		}
		op.ReserveQueued(k.Client, r.seq, r.end)
	case probe:
		op.ReserveBetter(k.Client, r.survey.bound, r.seq)
	default:
		op.ReserveBetter(k.Client, core.MaxKey, r.seq)
	}
	op.Waiter = &r.Waiter
	r.purpose, r.shard = why, k.Shard()
	return Step{Next: Visit, Shard: k.Shard()}
}

// lookAnew surveys the shards from the beginning.
func (r *Reserve) lookAnew(op *core.Op) Step {
	r.surveyed().begin()
	return r.Look(op)
}

// lookAgain makes Look start a new survey, after a shard did not serve the job that the survey
// has found. The caller may own that shard.
func (r *Reserve) lookAgain() Step {
	r.surveyed().stale = true
	return Step{Next: Look}
}

// Look continues the survey. The caller must own no shard.
func (r *Reserve) Look(op *core.Op) Step {
	v := r.survey
	if v.stale {
		v.begin()
		if !r.pace.SpendOne() {
			return Step{Next: Later}
		}
	}
	for {
		if !v.look() {
			if !r.pace.SpendOne() {
				return Step{Next: Later}
			}
			continue
		}
		if v.where >= 0 {
			return r.visit(r.handles.In(v.where), probe, op)
		}
		if v.quiet(core.MaxKey, None) {
			return r.noneReady(op)
		}
		v.begin()
		if !r.pace.SpendOne() {
			return Step{Next: Later}
		}
	}
}

// noneReady returns the step after a survey that found no job.
func (r *Reserve) noneReady(op *core.Op) Step {
	r.next = 0
	if r.wait == 0 {
		return r.askMargin(op)
	}
	return r.register(op)
}

// askMargin visits the next shard in which the client holds jobs, to check whether DEADLINE_SOON
// is due.
func (r *Reserve) askMargin(op *core.Op) Step {
	for r.next < r.handles.Len() {
		k := r.handles.At(r.next)
		r.next++
		if k.Held > 0 {
			return r.visit(k, margin, op)
		}
	}
	r.Waiter.Take(r.seq)
	return r.say(core.StatusTimedOut, op)
}

// register queues the client in the next shard with watched tubes or held jobs.
func (r *Reserve) register(op *core.Op) Step {
	for r.next < r.handles.Len() {
		k := r.handles.At(r.next)
		r.next++
		if k.Watching > 0 || k.Held > 0 {
			return r.visit(k, register, op)
		}
	}
	if !r.Waiter.Open(r.seq) {
		r.Waiter.Reset(r.seq)
		return r.lookAgain()
	}
	return Step{Next: Wait}
}

// Took takes the reply of a visit. k is the client's handle in the shard, updated by Learn.
func (r *Reserve) Took(reply *core.Reply, k *Handle, op *core.Op) Step {
	if r.purpose == cancel {
		return r.cancel(op)
	}
	switch reply.Status {
	case core.StatusWaiting:
		k.Waiting = true
		if r.purpose == alone {
			return Step{Next: Wait}
		}
		return r.register(op)
	case core.StatusElsewhere:
		return r.lookAgain()
	case core.StatusTimedOut:
		switch {
		case r.purpose == alone:
			return Step{Said: core.StatusTimedOut}
		case r.purpose == margin:
			return r.askMargin(op)
		case r.purpose == register: // the wait has timed out
			r.wait = 0
			return r.lookAgain()
		case r.list.Spread: // another client was quicker
			return r.lookAgain()
		}
		// The only shard with watched tubes has no job; the client holds jobs in others.
		return r.noneReady(op)
	case core.StatusReserved, core.StatusDeadlineSoon:
		if r.purpose == alone {
			return Step{Said: reply.Status}
		}
		k.Waiting = false
		return r.say(reply.Status, op)
	}
	panic(fmt.Sprintf("ops: shard %d answers a reserve with status %d, asked for purpose %d", r.shard, reply.Status, r.purpose))
}

// say replies to the client, and removes it from the queues.
func (r *Reserve) say(s core.Status, op *core.Op) Step {
	r.seq = 0
	n := r.cancel(op)
	n.Said = s
	return n
}

// cancel leaves the queues of the next shard in which the client waits.
func (r *Reserve) cancel(op *core.Op) Step {
	r.purpose = cancel
	for i := range r.handles.list {
		if k := &r.handles.list[i]; k.Waiting {
			k.Waiting = false
			op.CancelWait(k.Client)
			r.shard = k.Shard()
			return Step{Next: Visit, Shard: k.Shard()}
		}
	}
	return Step{}
}

// Early notes a wake-up that arrived before the StatusWaiting reply. Pass it to Woken once Took has
// returned Wait.
func (r *Reserve) Early() { r.early = true }

// TakeEarly reports whether Early was called since the last TakeEarly.
func (r *Reserve) TakeEarly() (was bool) {
	was, r.early = r.early, false
	return was
}

// Woken takes the wake-up of a waiting client. k is the handle in the shard that has served it,
// nil if it has none.
func (r *Reserve) Woken(reply *core.Reply, k *Handle, op *core.Op) Step {
	if k != nil {
		k.Waiting = false
	}
	return r.say(reply.Status, op)
}

// GiveUp ends the wait as timed out. It returns false if a shard has ended the wait before; then
// the wake-up is on its way.
func (r *Reserve) GiveUp(op *core.Op) (_ Step, ok bool) {
	if !r.Waiter.Claim(r.seq) {
		return Step{}, false
	}
	return r.say(core.StatusTimedOut, op), true
}

// Abandon prevents shards from serving the wait. A Leave must follow. The caller discards a wake-up
// that is on its way: the Leave returns its job.
func (r *Reserve) Abandon() { r.Waiter.Claim(r.seq) }

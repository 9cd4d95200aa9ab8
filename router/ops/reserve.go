package ops

import (
	"fmt"

	"polystalk/shard"
	"polystalk/shard/core"
)

// A Reserve takes the best ready job of all tubes on a client's watch list, and waits for
// one if there is none.
//
// A watch list within one shard is one visit: the shard picks, or queues the client. A
// list over several shards goes like this:
//
//	probe     survey the shards, visit the one with the best job. It serves it if
//	          that is still the best of all; else survey them again.
//	margin    nothing anywhere and no wish to wait: ask the shards where the
//	          client holds jobs whether DEADLINE_SOON is due.
//	register  else queue in every shard with watched tubes or held jobs, with a wait
//	          that is closed (core.Waiter). Each looks for a ready job while it
//	          queues the client. Once queued in all, open the wait: one claim
//	          decides which shard serves it.
//	cancel    leave the queues of the others.
//
// The proof that who waits has nothing ready: the wait was closed at a moment C, or
// reset; then each shard was visited, had nothing for the client, and left it in the
// queues of its tubes. A job that a shard was to keep since, after its visit, met the
// client in the queue and called. So when the wait is opened without having been
// called, at O, no watched tube has a job; and what is made ready from then on meets
// an open wait in the queue, and claims it before it is anybody else's. Thus
// who is served by a claim gets the best job there is, and a wait that ends with
// TIMED_OUT or DEADLINE_SOON by a claim ends when there is none. Called instead, the
// client surveys the shards again, and its place in the queues stays.
//
// Who watches tubes of one shard only and holds jobs in others is a case apart: the
// margin of those is asked for one moment, and the ready job for another.
//
// One is made for a client by NewReserve and used for all of its reserves, one after the other.
type Reserve struct {
	// Waiter is what the shards know of the wait. Its Msg is the wake-up, whose Home
	// and Owner are the client's to set, and which goes to Woken when it has come.
	Waiter core.Waiter

	m       *Map
	batch   *shard.Batch
	pace    Pace
	list    *WatchList
	handles *Handles

	survey  *survey // nil: no reserve has reached over several shards
	purpose purpose // what the visit under way is for
	early   bool    // the wake-up has come before Took has said Wait; see Woken
	shard   int     // that is being visited
	next    int     // index into handles: who is to be asked next
	seq     uint64  // the wait's number; zero: none is armed

	wait core.Time // that was asked for: zero, some seconds, or core.Never
	end  core.Time // the same as a moment in time awake
}

// A Pace says how much may be done before others have their turn. It is counted in the
// units of session.Loop, about half a microsecond each.
type Pace interface {
	// Spend counts so many units.
	Spend(units int)
	// SpendOne counts one unit, and reports whether the turn may go on.
	SpendOne() (goOn bool)
	// LookMost is how many tubes of a long list are looked at before a unit is spent.
	LookMost() int
}

// A purpose says what a visit is for.
type purpose uint8

const (
	alone    purpose = iota // all is in one shard
	probe                   // the shard with the best published key
	margin                  // is DEADLINE_SOON due? Asked before TIMED_OUT
	register                // one of several shards to wait in
	cancel                  // one of those that did not serve
)

// Next says what a Reserve needs to go on.
type Next uint8

const (
	// Done: it is over. The next one may start.
	Done Next = iota
	// Visit: the op is filled; run it on Step.Shard and give the reply to Took.
	Visit
	// Look: call Look as soon as no shard is owned.
	Look
	// Later: call Look in a later turn.
	Later
	// Wait: the client is in the queues. The wake-up will come, unless GiveUp is
	// quicker.
	Wait
)

// A Step is what is next in a Reserve.
type Step struct {
	Next  Next
	Shard int // of Visit

	// Said is what the client is to be told now, before anything else: StatusReserved
	// (the job is in the reply that was just given), StatusTimedOut or
	// StatusDeadlineSoon. StatusOK: nothing yet.
	Said core.Status
}

// NewReserve makes a Reserve for the client that has these handles and watches that list.
// b is the batch with which its shards are visited.
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
	// A reserve within one shard that was served at once has left its wait armed, and open.
	// Forget it: this reserve needs one that is closed.
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

// lookAgain is lookAnew when a shard did not serve what the survey had found. The caller may
// own that shard.
func (r *Reserve) lookAgain() Step {
	r.surveyed().stale = true
	return Step{Next: Look}
}

// Look goes on with the survey, with no shard owned.
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

// noneReady goes on when nothing can be reserved anywhere.
func (r *Reserve) noneReady(op *core.Op) Step {
	r.next = 0
	if r.wait == 0 {
		return r.askMargin(op)
	}
	return r.register(op)
}

// askMargin asks the next shard in which the client holds jobs whether one is about to
// run out.
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

// register queues the client in the next shard that matters.
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

// Took takes the reply of the visit, and what the handle of its shard is since.
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
		case r.purpose == register: // the time was over meanwhile
			r.wait = 0
			return r.lookAgain()
		case r.list.Spread: // another client was quicker
			return r.lookAgain()
		}
		// The only shard with watched tubes has nothing; jobs are held in others.
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

// say answers the client, which is then taken out of the queues.
func (r *Reserve) say(s core.Status, op *core.Op) Step {
	r.seq = 0
	n := r.cancel(op)
	n.Said = s
	return n
}

// cancel leaves the queue of the next shard in which the client still is.
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

// Early notes that the wake-up has come before the answer that the client waits: it goes
// to Woken once that answer has said Wait.
func (r *Reserve) Early() { r.early = true }

// TakeEarly reports whether Early was called since.
func (r *Reserve) TakeEarly() (was bool) {
	was, r.early = r.early, false
	return was
}

// Woken takes the wake-up of a client that waits; k is the handle of the shard that has
// served it, nil if it has none.
func (r *Reserve) Woken(reply *core.Reply, k *Handle, op *core.Op) Step {
	if k != nil {
		k.Waiting = false
	}
	return r.say(reply.Status, op)
}

// GiveUp ends the wait from the client's side: it has timed out. It reports false when a
// shard was quicker; then the wake-up is under way.
func (r *Reserve) GiveUp(op *core.Op) (_ Step, ok bool) {
	if !r.Waiter.Claim(r.seq) {
		return Step{}, false
	}
	return r.say(core.StatusTimedOut, op), true
}

// Abandon has the wait served by nobody any more: the client leaves, and a Leave does the
// rest. A wake-up that is under way already is to be thrown away, as the job goes back
// with the client.
func (r *Reserve) Abandon() { r.Waiter.Claim(r.seq) }

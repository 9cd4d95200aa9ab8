package session

import (
	"errors"
	"fmt"

	"polystalk/shard/core"
)

// A View is what a session is like, for checks and tests; for who has its loop.
type View struct {
	Life             string
	Stops            Stops
	Held, Charged    int // bytes of input, and of all that is charged to it
	Pieces           core.Large
	Queued, Deferred bool
	InBodyRoom       bool // it is in the room for bodies, or waits for it
	Roles            Roles
}

// View tells what the session is like now.
func (s *Session) View() View {
	return View{
		Life: s.life.String(), Stops: s.stops, Held: s.held(), Charged: s.charge.bytes,
		Pieces: s.body.pieces, Queued: s.queued, Deferred: s.Deferred(), InBodyRoom: s.body.listed,
		Roles: s.roles,
	}
}

// A LoopView is what a loop is like, for checks and tests; for who has the loop.
type LoopView struct {
	Queued     int   // sessions that go on in a later turn
	Corked     int   // sessions whose replies are kept back, or were
	Charged    int   // sessions that keep something
	Untold     int   // bytes of which the account was not told yet
	Unfinished int64 // operations left in shards and turns put off
}

// View tells what the loop is like now.
func (l *Loop) View() LoopView {
	return LoopView{
		Queued: l.queue.len(), Corked: len(l.corks.list), Charged: len(l.charged.list),
		Untold: l.charged.change, Unfinished: l.unfinished.Load(),
	}
}

// Protocol is what is spoken on the session.
func (s *Session) Protocol() Protocol { return s.proto }

// HeldInput is the input that is held. It is the session's.
func (s *Session) HeldInput() []byte {
	if s.in.buf == nil {
		return nil
	}
	return s.in.buf.B[s.in.at:]
}

// CheckAtRest looks for what cannot be when nothing is left to do.
func (s *Session) CheckAtRest() error {
	switch {
	case s.life == busy || s.life == closing:
		return fmt.Errorf("%v, call %v to shard %d: stuck", s.life, s.call.state, s.call.shard)
	case s.call.state != callIdle || s.queued || s.end == broken:
		return fmt.Errorf("call %v, queued %v, ending %d at rest", s.call.state, s.queued, s.end)
	case s.end > open && s.stops&Unread == 0 && s.life != gone:
		return errors.New("its client sends no more and it does not end")
	}
	return nil
}

// CheckAtRest compares the loop's sums with those of its sessions, all of them, and looks
// for what cannot be when nothing is left to do.
func (l *Loop) CheckAtRest(all []*Session) error {
	type sums struct{ connections, producers, workers, sleepers, waiting int64 }
	var want sums
	for _, s := range all {
		want.connections++
		if s.roles&Producer != 0 {
			want.producers++
		}
		if s.roles&Worker != 0 {
			want.workers++
		}
		if s.roles&Sleeper != 0 {
			want.sleepers++
		}
		if s.life == waiting {
			want.waiting++
		}
		if l.roll.find(s.notes.number) != s {
			return fmt.Errorf("session %d is not on the roll", s.notes.number)
		}
	}
	if err := l.roll.check(len(all)); err != nil {
		return err
	}
	c := &l.counts
	got := sums{0, c.producers.Load(), c.workers.Load(), c.sleepers.Load(), c.waiting.Load()}
	for i := range c.fronts {
		got.connections += c.fronts[i].open.Load()
	}
	if got != want {
		return fmt.Errorf("it counts %+v, its sessions are %+v", got, want)
	}
	kept := int64(len(l.gate.replies)) // what waits for the disk, or for its time
	if len(l.corks.list) > 0 {
		kept++
	}
	if n := l.unfinished.Load() - kept; n != 0 {
		return fmt.Errorf("%d operations or turns unfinished at rest", n)
	}
	if n := len(l.batch.Local) + l.queue.len() + l.answer.len() + len(l.out); n > 0 || l.outbox.Load() != nil || l.large.body != nil {
		return fmt.Errorf("%d entries left at rest", n)
	}
	return nil
}

// CheckOutbox looks for messages that were posted again while they were under way.
func (l *Loop) CheckOutbox() error {
	// Linked in twice, a message makes the list a ring: who goes at double speed meets
	// the other.
	fast := l.outbox.Load()
	for slow := fast; fast != nil; slow = slow.Next.Load() {
		if fast = fast.Next.Load(); fast == nil {
			break
		}
		if fast = fast.Next.Load(); fast != nil && fast == slow.Next.Load() {
			return errors.New("a message was posted twice")
		}
	}
	return nil
}

package session

import (
	"errors"
	"fmt"

	"polystalk/shard/core"
)

// A view is a session's state for checks and tests.
type view struct {
	Life     string
	Stops    Stops
	Held     int // bytes of held input
	Pieces   core.Large
	HasPlace bool // its body has a place, or waits for one
	Roles    roles
}

// View returns the session's state. The caller must hold the loop.
func (s *Session) View() view {
	return view{
		Life: s.life.String(), Stops: s.stops, Held: s.held(),
		Pieces: s.body.pieces, HasPlace: s.body.listed, Roles: s.roles,
	}
}

// A loopView is a loop's state for checks and tests.
type loopView struct {
	Queued     int   // sessions queued for a later turn
	Corked     int   // sessions on the list of corked replies
	Holders    int   // sessions with memory in the account
	Untold     int   // bytes not yet added to the account
	Unfinished int64 // pending operations, deferred turns and gated replies
}

// View returns the loop's state. The caller must hold it.
func (l *Loop) View() loopView {
	return loopView{
		Queued: l.queue.len(), Corked: len(l.corks.list), Holders: len(l.holders.list),
		Untold: l.holders.change, Unfinished: l.unfinished.Load(),
	}
}

// Protocol returns the session's protocol.
func (s *Session) Protocol() protocol { return s.proto }

// HeldInput returns the held input. The session owns the bytes.
func (s *Session) HeldInput() []byte {
	if s.in.buf == nil {
		return nil
	}
	return s.in.buf.B[s.in.at:]
}

// CheckAtRest returns an error if the state of an idle session is inconsistent.
func (s *Session) CheckAtRest() error {
	switch {
	case s.life == busy || s.life == closing:
		return fmt.Errorf("%v, call %v to shard %d: stuck", s.life, s.call.state, s.call.shard)
	case s.call.state != callIdle || s.queued || s.end == broken:
		return fmt.Errorf("call %v, queued %v, ending %d at rest", s.call.state, s.queued, s.end)
	case s.end > open && s.stops&Unread == 0 && s.life != gone:
		return errors.New("its client sends no more, but it does not close")
	}
	return nil
}

// CheckAtRest compares the loop's counts with all of its sessions. It returns an error if the
// state of the idle loop is inconsistent.
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
		if l.registry.find(s.activity.number) != s {
			return fmt.Errorf("session %d is not registered", s.activity.number)
		}
	}
	if err := l.registry.check(len(all)); err != nil {
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
	kept := int64(len(l.gate.replies)) // sessions that wait for a commit, and corked replies
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

// CheckOutbox returns an error if a message is in the outbox twice.
func (l *Loop) CheckOutbox() error {
	// A message that is linked twice makes the list a ring, in which the fast pointer meets
	// the slow one.
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

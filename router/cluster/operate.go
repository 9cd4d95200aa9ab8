package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrEnded is the error of asking a node that has ended.
var ErrEnded = errors.New("this server has ended")

// ErrUncertain is the error of a change that was proposed, or may have been, and of which this node
// hears no more: whoever leads next may commit it, or drop it. It comes with what has happened,
// which says nothing of the change: ErrNotLeader, ErrEnded, or the context's error.
var ErrUncertain = errors.New("the change may have been made, or be made yet")

// uncertain is ErrUncertain for a cause, nil if there is none.
func uncertain(cause error) error {
	if cause == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUncertain, cause)
}

// Ended reports whether the node has ended, or is about to. Anyone may call it.
func (n *Node) Ended() bool {
	select {
	case <-n.quit:
		return true
	default:
		return false
	}
}

// do has the goroutine of the Machine call f, and waits for that. After an error f may still be
// called, or be at it: what it writes is not to be read then.
func (n *Node) do(ctx context.Context, f func(m *Machine)) error {
	done := make(chan struct{})
	n.later(func() {
		f(n.engine.machine)
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-n.quit:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Change changes the members, and waits until this node has applied it. It is for the leader:
// the error is ErrNotLeader elsewhere, ErrSelf if it would remove itself. Nothing was done then,
// unless the error is ErrUncertain as well.
func (n *Node) Change(ctx context.Context, c Change) error {
	for {
		if n.Ended() {
			return ErrEnded
		}
		var index uint64
		var refused error
		if err := n.do(ctx, func(m *Machine) { index, refused = m.ProposeChange(c) }); err != nil {
			return uncertain(err)
		}
		switch {
		case errors.Is(refused, ErrBusy):
			if err := n.pause(ctx); err != nil {
				return err
			}
		case refused != nil:
			return refused
		default:
			return uncertain(n.await(ctx, func(v *View) bool { return v.Members.Index >= index }))
		}
	}
}

// pause waits for a moment.
func (n *Node) pause(ctx context.Context) error {
	t := time.NewTimer(n.tick)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-n.quit:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await waits until the view is as it should be, or another node leads.
func (n *Node) await(ctx context.Context, is func(*View) bool) error {
	for {
		v, changed := n.View()
		switch {
		case is(&v):
			return nil
		case v.Leader != n.engine.self && v.Leader != 0:
			return ErrNotLeader
		}
		select {
		case <-changed:
		case <-n.quit:
			return ErrEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ErrNoSuccessor is the error of handing over when there is nobody.
var ErrNoSuccessor = errors.New("no other server that votes can be reached: nobody can take over")

// Transfer hands over to another voter, zero: to whoever can soonest, and waits until another
// leads. The replica of this node is of no use then: the node ends, Deposed.
func (n *Node) Transfer(ctx context.Context, to uint64) error {
	var refused error
	err := n.do(ctx, func(m *Machine) {
		if to == 0 {
			to = m.Successor()
		}
		switch {
		case m.Leads() == 0:
			refused = ErrNotLeader
		case to == 0:
			refused = ErrNoSuccessor
		default:
			refused = m.Transfer(to)
		}
	})
	switch {
	case err != nil:
		return err // refused may be written at this moment
	case refused != nil:
		return refused
	}
	err = n.await(ctx, func(v *View) bool { return v.Leader != n.engine.self && v.Leader != 0 })
	if errors.Is(err, ErrEnded) { // deposed meanwhile, which is what was wanted
		return nil
	}
	return err
}

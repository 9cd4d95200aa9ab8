package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polystalk/shard/commit"
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

// ErrBehind is the error of handing over to a voter that lacks too much of the log.
var ErrBehind = errors.New("the server has not caught up with the log within the timeout of elections, so it cannot take over")

// Transfer hands the lead over to another voter, and waits until another node leads. The replica of
// this node is of no use then: the node ends, Deposed. With zero it chooses the voter, and chooses
// again if that voter does not catch up. A voter that the caller names gets one try: if the error is
// ErrBehind this node goes on leading.
func (n *Node) Transfer(ctx context.Context, to uint64) error {
	for tried := false; ; tried = true {
		var refused error
		err := n.do(ctx, func(m *Machine) {
			next := to
			if to == 0 {
				next = m.Successor()
			}
			switch {
			case tried && (m.Leads() == 0 || m.Transferring()):
			case m.Leads() == 0:
				refused = ErrNotLeader
			case tried && to != 0:
				refused = ErrBehind
			case next == 0 && !tried:
				refused = ErrNoSuccessor
			case next == 0: // one may answer again
			default:
				refused = m.Transfer(next)
			}
		})
		switch {
		case tried && errors.Is(err, ErrEnded): // another node leads
			return nil
		case err != nil:
			return err // the closure may write refused at this moment
		case refused != nil:
			return refused
		}
		soon, cancel := context.WithTimeout(ctx, n.tick)
		err = n.await(soon, func(v *View) bool { return v.Leader != n.engine.self && v.Leader != 0 })
		cancel()
		if err == nil || errors.Is(err, ErrEnded) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// StepDown ends a node as deposed, for an error that says why it cannot lead any more.
func (n *Node) StepDown(why error) { n.end(&commit.Failure{Cause: commit.Deposed, Err: why}) }

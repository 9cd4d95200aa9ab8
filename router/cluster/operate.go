package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polystalk/shard/commit"
)

// ErrEnded is the error of a node that has ended.
var ErrEnded = errors.New("this server has ended")

// ErrUncertain is the error of a change with an unknown result: it may have been proposed, and the
// next leader may commit or drop it. It wraps the cause: ErrNotLeader, ErrEnded, or ctx.Err().
var ErrUncertain = errors.New("the change may have been made, or may still be made")

// uncertain wraps a cause in ErrUncertain; nil stays nil.
func uncertain(cause error) error {
	if cause == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUncertain, cause)
}

// Ended reports whether the node has ended, or is about to. It is safe for concurrent use.
func (n *Node) Ended() bool {
	select {
	case <-n.quit:
		return true
	default:
		return false
	}
}

// do calls f on the Machine's goroutine, and waits. After an error f may still run: the caller must
// not read what f writes.
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

// Change changes the members, and waits until this node has applied the change. Only the leader can
// do it: see ErrNotLeader and ErrSelf. After an error that is not ErrUncertain nothing has changed.
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
		case errors.Is(refused, errBusy):
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

// pause waits for a tick.
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

// await waits until is(view) is true. It fails if another node leads.
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

// errNoSuccessor is the error of a hand-over when no voter can be reached.
var errNoSuccessor = errors.New("no other server that votes can be reached: no server can take over")

// ErrBehind is the error of a hand-over to a voter that lacks too much of the log.
var ErrBehind = errors.New("the server has not caught up with the log within the election timeout, so it cannot take over")

// Transfer hands over to another voter, and waits until another node leads. Then this node ends as
// Deposed: its replica is useless. If to is zero, Transfer chooses the voter, and another one if
// that voter does not catch up. A voter that the caller chooses gets one try: after ErrBehind this
// node continues to lead.
func (n *Node) Transfer(ctx context.Context, to uint64) error {
	for tried := false; ; tried = true {
		var refused error
		err := n.do(ctx, func(m *Machine) {
			next := to
			if to == 0 {
				next = m.successor()
			}
			switch {
			case tried && (m.Leads() == 0 || m.Transferring()):
			case m.Leads() == 0:
				refused = ErrNotLeader
			case tried && to != 0:
				refused = ErrBehind
			case next == 0 && !tried:
				refused = errNoSuccessor
			case next == 0: // a voter may answer again
			default:
				refused = m.Transfer(next)
			}
		})
		switch {
		case tried && errors.Is(err, ErrEnded): // another node leads
			return nil
		case err != nil:
			return err // the closure may be writing refused
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

// StepDown ends a node as deposed. The error says why it cannot lead any more.
func (n *Node) StepDown(why error) { n.end(&commit.Failure{Cause: commit.Deposed, Err: why}) }

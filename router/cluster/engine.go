package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"polystalk/shard/commit"
)

// An engine is a Machine with the parts that do its work. A Node drives it with goroutines, a
// Stepper with one.
type engine struct {
	machine   *Machine
	disk      *disk
	applier   *applier
	proposals *Proposals
	self      uint64

	send  func(Message)
	fetch func(Fetch)

	appends []*Append // for the disk, oldest first
	applies []*apply  // for the applier, oldest first

	leading    atomic.Uint64 // the term in which it leads, or zero
	promoted   atomic.Uint64 // the term in which the replica leads, or zero
	leaseUntil atomic.Int64  // Machine.LeaseUntil
}

// ErrRemoved ends a node that is no longer a member.
var ErrRemoved = errors.New("this server was removed from the cluster: to have it back, let it join again with an empty directory")

// newEngine returns an engine. The caller sets send, fetch and applier.change.
func newEngine(o *NodeOptions) (*engine, error) {
	m, err := newMachine(o)
	if err != nil {
		return nil, err
	}
	if err := o.State.SaveMembers(m.Members()); err != nil {
		return nil, err
	}
	e := &engine{machine: m, self: m.id, disk: &disk{log: o.Log, state: o.State}, proposals: o.Proposals}
	e.applier = &applier{
		log: o.Log, state: o.State, replica: o.Replica, proposals: o.Proposals, members: m.Members(),
		leads: e.leading.Load, promoting: e.promoted.Store,
	}
	return e, nil
}

// receive is Machine.receive. An error is a panic of raft.
func (e *engine) receive(msg Message) (err error) {
	defer e.recovered(&err)
	e.machine.receive(msg)
	return nil
}

// tick is Machine.Tick.
func (e *engine) tick(now time.Duration) (err error) {
	defer e.recovered(&err)
	e.machine.Tick(now)
	return nil
}

// done is Machine.Done.
func (e *engine) done(msg Message) (err error) {
	defer e.recovered(&err)
	return e.machine.Done(msg)
}

// ErrLogLost ends a node when its log lacks or contradicts entries that the node has acknowledged.
// Another start ends in the same way.
var ErrLogLost = errors.New("the directory lacks entries that this server has acknowledged: remove this server, and let it join again with an empty directory")

// recovered turns a panic of raft into an error.
func (e *engine) recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("the server cannot continue in its cluster: %w", r)
	case string:
		if strings.Contains(r, "is out of range") || strings.Contains(r, "conflict with committed entry") {
			*err = ErrLogLost
			return
		}
		*err = fmt.Errorf("the server cannot continue in its cluster: %s", r)
	default:
		*err = fmt.Errorf("the server cannot continue in its cluster: %v", r)
	}
}

// change implements applier.change. It runs on the Machine's goroutine.
func (e *engine) change(entry *Entry, next *Members) (err error) {
	defer e.recovered(&err)
	if err := e.machine.applyChange(entry, next); err != nil {
		return err
	}
	if next.Find(e.self) == nil {
		return &commit.Failure{Cause: commit.Disk, Err: ErrRemoved}
	}
	return nil
}

// turn proposes queued entries, and collects the Machine's work until there is none. It publishes
// the term and the lease before it sends messages.
func (e *engine) turn() (err error) {
	defer e.recovered(&err)
	for {
		e.propose()
		r, ok := e.machine.Ready()
		e.publish()
		if !ok {
			break
		}
		for _, msg := range r.Send {
			e.send(msg)
		}
		if r.Append != nil {
			e.appends = append(e.appends, r.Append)
		}
		if r.Apply != nil {
			e.applies = append(e.applies, r.Apply)
		}
		if r.Fetch != nil {
			e.fetch(*r.Fetch)
		}
	}
	if t := e.promoted.Load(); t != 0 && t != e.leading.Load() {
		return errDeposed
	}
	return nil
}

// propose gives the journal's entries to the Machine. During a hand-over they stay queued:
// afterwards the node is deposed, or leads again.
func (e *engine) propose() {
	if e.machine.Leads() == 0 {
		return
	}
	list := e.proposals.take()
	if len(list) == 0 {
		return
	}
	first, err := e.machine.Propose(list)
	if err != nil {
		e.proposals.giveBack(list)
		return
	}
	e.proposals.accepted(list, first)
}

// publish makes the term and the lease visible to other goroutines.
func (e *engine) publish() {
	e.leading.Store(e.machine.Leads())
	e.leaseUntil.Store(int64(e.machine.leaseUntil()))
}

package cluster

import (
	"errors"
	"fmt"

	"polystalk/shard/commit"
	"polystalk/shard/record"
)

// A Replica is the state that the history makes. One goroutine uses it.
type Replica interface {
	// Apply takes a record that another node has written, in the order in which it was.
	Apply(rec *record.Record) error
	// Settle brings into order what was applied; it is called now and then.
	Settle()
	// Lead has the replica be the one that makes the history: everything before is applied.
	// What it does from now on goes to the Node's Proposals, in the order in which it is
	// done. There is no way back. It may take its time.
	Lead() error
}

// settleEvery is how many records are applied between two calls of Settle.
const settleEvery = 1 << 14

// An applier gives the history to a Replica. One goroutine uses it.
type applier struct {
	log       Log
	state     *State
	replica   Replica
	proposals *Proposals
	members   *Members // as of the last entry
	// leads is the term in which the node leads at this moment, or zero.
	leads func() uint64
	// change has the Machine go by a change of the members, before it hears that the entry
	// was applied.
	change func(e *Entry, next *Members)
	// promoting tells that the replica leads from now on, for a term.
	promoting func(term uint64)

	led       uint64 // the term in which the replica leads; zero: it does not
	unsettled int
	rec       record.Record
}

// errDeposed is the cause of the end of a node whose replica leads, while it does not.
var errDeposed = &commit.Failure{Cause: commit.Deposed, Err: errors.New("this server does not lead any more")}

// do applies a piece of the history.
func (a *applier) do(p *Apply) error {
	for i := range p.Entries {
		e := &p.Entries[i]
		if err := a.entry(e, p.Own); err != nil {
			return err
		}
	}
	if a.unsettled >= settleEvery {
		a.replica.Settle()
		a.unsettled = 0
	}
	if a.led == 0 {
		return nil
	}
	return a.proposals.committed(p.Entries[len(p.Entries)-1].Index)
}

// entry applies one. What the replica itself has done, as the leader, it is not given again.
func (a *applier) entry(e *Entry, own uint64) error {
	switch {
	case a.led != 0 && e.Term != a.led:
		return errDeposed
	case e.Kind != record.Normal:
		return a.changeMembers(e)
	case a.led != 0:
		return nil
	case own != 0 && e.Term == own:
		return a.lead(own)
	}
	return a.records(e)
}

// lead makes the replica the leading one: the first entry of the node's own term is applied, so
// all of before are.
func (a *applier) lead(term uint64) error {
	if a.leads() != term {
		return nil // not any more: this entry was empty, and nothing was proposed behind it
	}
	a.led = term
	a.promoting(term)
	if err := a.replica.Lead(); err != nil {
		return err
	}
	if a.leads() != term {
		return errDeposed
	}
	return nil
}

// records applies the records of an entry.
func (a *applier) records(e *Entry) error {
	for b := e.Data; len(b) > 0; {
		n, err := record.Parse(&a.rec, b)
		if err != nil {
			return fmt.Errorf("entry %d of term %d cannot be read: %w", e.Index, e.Term, err)
		}
		a.rec.Commit = e.Index // what a job is known by to who compacts what holds it
		if err := a.replica.Apply(&a.rec); err != nil {
			return fmt.Errorf("entry %d of term %d cannot be applied: %w", e.Index, e.Term, err)
		}
		if a.rec.Kind == record.Floor {
			a.log.GiveUp(a.rec.Bottom)
		}
		a.unsettled++
		b = b[n:]
	}
	return nil
}

// changeMembers applies a change of the members, unless it was before the last start: they are
// on the disk before raft goes by them.
func (a *applier) changeMembers(e *Entry) error {
	if e.Index <= a.members.Index {
		return nil
	}
	c, _, err := parseChange(e.Data)
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.Index, err)
	}
	next, err := a.members.After(c, e.Index)
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.Index, err)
	}
	if err := a.state.SaveMembers(next); err != nil {
		return err
	}
	a.members = next
	a.change(e, next)
	return nil
}

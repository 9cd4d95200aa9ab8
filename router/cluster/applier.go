package cluster

import (
	"errors"
	"fmt"

	"polystalk/shard/commit"
	"polystalk/shard/record"
)

// A Replica is the state to which the log is applied. One goroutine uses it.
type Replica interface {
	// Apply applies a record of another server, in the order of the log.
	Apply(rec *record.Record) error
	// Settle sorts the applied records. It is called every settleEvery records.
	Settle()
	// Lead makes this replica the leading one, after all earlier entries were applied. From then on
	// its changes go to the Node's Proposals, in order. It cannot be undone, and may take long.
	Lead() error
}

// settleEvery is the number of records applied between two calls of Settle.
const settleEvery = 1 << 14

// An applier applies the log to a Replica. One goroutine uses it.
type applier struct {
	log       Log
	state     *State
	replica   Replica
	proposals *Proposals
	members   *Members // after the last entry
	// leads returns the term in which the node leads now, or zero.
	leads func() uint64
	// change passes a change of the members to the Machine, before Machine.Done of its entry.
	change func(e *Entry, next *Members)
	// promoting is called with the term when the replica begins to lead.
	promoting func(term uint64)

	led       uint64 // the term in which the replica leads; zero: it does not
	unsettled int
	rec       record.Record
}

// errDeposed ends a node that does not lead while its replica does.
var errDeposed = &commit.Failure{Cause: commit.Deposed, Err: errors.New("this server no longer leads")}

// do applies a range of entries.
func (a *applier) do(p *apply) error {
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

// entry applies one entry. The leading replica has already executed its own.
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

// lead makes the replica lead. It is called at the first entry of the node's own term.
func (a *applier) lead(term uint64) error {
	if a.leads() != term {
		return nil // it was deposed: this entry is empty, and nothing was proposed after it
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
		a.rec.Commit = e.Index // compaction finds the record by it
		if err := a.replica.Apply(&a.rec); err != nil {
			return fmt.Errorf("entry %d of term %d cannot be applied: %w", e.Index, e.Term, err)
		}
		if a.rec.Kind == record.KindFloor {
			a.log.GiveUp(a.rec.Floor)
		}
		a.unsettled++
		b = b[n:]
	}
	return nil
}

// changeMembers applies a change of the members, unless an earlier run of the process did. The
// members are on the disk before raft uses them.
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

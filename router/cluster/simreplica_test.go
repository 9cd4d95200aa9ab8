package cluster

import (
	"fmt"
	"slices"

	"polystalk/shard/record"
)

// The state of a simReplica is the operations that it has applied, in order. As the leader it
// executes operations before they are committed.
type simReplica struct {
	s       *simNode
	ops     []uint64
	checked int // operations compared so far
	leads   bool
	commit  uint64
	commits []simCommit // not acknowledged
	floors  []simFloor
}

// A simCommit is a commit that a client waits for.
type simCommit struct {
	commit uint64
	ops    []uint64
}

// A simFloor is a floor that the leader uses once a commit is acknowledged.
type simFloor struct{ commit, index uint64 }

func (r *simReplica) Settle() {}

func (r *simReplica) Lead() error {
	r.leads = true
	r.commit = r.s.log.Last()
	return nil
}

func (r *simReplica) Apply(rec *record.Record) error {
	if rec.Commit <= r.s.log.Committed() || rec.Commit > r.s.log.Last() {
		return fmt.Errorf("node %d is given a record of entry %d, and has applied up to %d of %d", r.s.id, rec.Commit, r.s.log.Committed(), r.s.log.Last())
	}
	if rec.Kind == record.KindDelete {
		r.ops = append(r.ops, rec.ID)
	}
	return nil
}

// check compares the state with the committed operations up to an index. A leader may have more:
// operations that are not committed yet.
func (r *simReplica) check(index uint64) error {
	want := r.s.w.ops[:r.s.w.upTo(index)]
	if len(r.ops) < len(want) || !r.leads && len(r.ops) > len(want) {
		return fmt.Errorf("node %d has %d operations at entry %d, not %d", r.s.id, len(r.ops), index, len(want))
	}
	if from := min(r.checked, len(want)); !slices.Equal(r.ops[from:len(want)], want[from:]) {
		return fmt.Errorf("node %d has operations %v at entry %d, not %v", r.s.id, r.ops[from:len(want)], index, want[from:])
	}
	r.checked = len(want)
	return nil
}

// do makes a commit of several entries, with some operations each.
func (r *simReplica) do(entries, each int) error {
	w := r.s.w
	r.commit++
	c := simCommit{commit: r.commit}
	p := r.s.props
	for range entries {
		var data []byte
		for range each {
			w.op++
			data = record.AppendDelete(data, 0, w.op)
			c.ops = append(c.ops, w.op)
			r.ops = append(r.ops, w.op)
		}
		if err := p.Propose(data, r.commit); err != nil {
			return err
		}
	}
	if entries == 0 && p.Wanted() {
		if err := p.Propose(nil, r.commit); err != nil {
			return err
		}
	}
	if w.fault == replyEarly {
		w.reply(c.ops)
	}
	r.commits = append(r.commits, c)
	return p.End(r.commit)
}

// giveUp proposes a floor.
func (r *simReplica) giveUp(index uint64) error {
	r.commit++
	p := r.s.props
	b := record.Floor{Index: index}
	if err := p.Propose(b.Append(nil), r.commit); err != nil {
		return err
	}
	r.floors = append(r.floors, simFloor{r.commit, index})
	return p.End(r.commit)
}

// acknowledge handles an acknowledged commit.
func (s *simNode) acknowledge(n uint64) error {
	r := s.rep
	for len(r.commits) > 0 && r.commits[0].commit <= n {
		s.w.reply(r.commits[0].ops)
		r.commits = r.commits[1:]
	}
	for len(r.floors) > 0 && r.floors[0].commit <= n {
		s.log.compact(r.floors[0].index)
		r.floors = r.floors[1:]
	}
	return nil
}

// reply tells a client that its operations are safe.
func (w *world) reply(ops []uint64) {
	w.told = append(w.told, ops...)
	w.seen["acked"] += len(ops)
}

// upTo returns the number of operations in the history up to an index.
func (w *world) upTo(index uint64) int {
	if index == 0 {
		return 0
	}
	return w.ends[index-1]
}

// opsOf returns the operations in an entry: each is a record that deletes the job with its number.
func opsOf(data []byte) (ops []uint64) {
	var r record.Record
	for len(data) > 0 {
		n, err := record.Parse(&r, data)
		if err != nil {
			panic(err)
		}
		if r.Kind == record.KindDelete {
			ops = append(ops, r.ID)
		}
		data = data[n:]
	}
	return ops
}

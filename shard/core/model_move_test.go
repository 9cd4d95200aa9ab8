package core

import (
	"fmt"
	"slices"

	"polystalk/shard/stats"
)

// A modelTaken is how a job was that is taken.
type modelTaken struct {
	was      State
	deadline Time
}

// isTaken reports whether an operator moves j.
func (j *modelJob) isTaken() bool { return j.taken != nil }

// actMoving does a verb of a move to one job.
func (m *model) actMoving(j *modelJob, v Verb, admitted uint32) Status {
	switch {
	case v == VerbTake && j.isTaken():
		return StatusMoving
	case v == VerbTake && j.state == Reserved:
		return StatusInUse
	case v == VerbTake || v == VerbRead:
		if len(j.body) > 65536 && int(admitted) < len(j.body) {
			return StatusUnadmitted
		}
		read := *j
		if j.isTaken() {
			read.state, read.deadline = j.taken.was, j.taken.deadline
		}
		m.read = append(m.read, read)
		if v == VerbTake {
			j.taken = &modelTaken{j.state, j.deadline}
			j.state, j.deadline = Reserved, 0
		}
		return StatusOK
	case !j.isTaken():
		return StatusUnfit
	}
	j.state, j.deadline, j.taken = j.taken.was, j.taken.deadline, nil
	switch {
	case v == VerbDrop:
		j.tube.deletes-- // a move ends no job
		m.flow.Deletes--
		m.delete(j)
	case j.state == Ready:
		m.serve(j.tube)
	}
	return StatusOK
}

// putCopies puts jobs like the jobs of m.copied.
func (m *model) putCopies(op *Op, r, got *Reply) {
	t := m.open(string(op.Name), got.Tube)
	r.Tube = t.id
	for k, id := range op.Operator.ids {
		from := &m.copied[k]
		j := &modelJob{id: id, pri: from.pri, delay: from.delay, ttr: from.ttr, body: from.body, tube: t, created: from.created, stats: from.stats, by: from.by}
		if op.Operator.Act.Verb != VerbTake && from.state != Buried && !m.admits(t, len(j.body)) {
			continue
		}
		m.jobs[id] = j
		if op.Operator.Act.Verb != VerbTake { // a move makes no job
			t.total++
			m.total++
		}
		r.N++
		switch {
		case from.state == Delayed && from.deadline > m.now:
			j.delay = uint32((from.deadline - m.now + Second - 1) / Second)
			m.set(j, Delayed, nil, from.deadline)
		case from.state == Buried:
			m.set(j, Buried, nil, 0)
			j.stats.Buries--
			t.flow.Events[stats.Bury]--
			m.flow.Events[stats.Bury]--
		default:
			m.set(j, Ready, nil, 0)
		}
	}
	m.forget(t)
}

// A moveTwin is a move, or a copy, that is under way while the driver plays.
type moveTwin struct {
	x     OperatorOp
	rows  []modelJob // as they were at x.Seen
	taken []JobID
}

// move makes op one that begins a move, or goes on with one; nil: it is none.
func (d *driver) move(op *Op) *Op {
	op.Kind, op.Admitted = opMany, d.oneOf(0, 1<<30, 1<<30)
	if len(d.moves) < 3 && d.pick(2) == 0 {
		w := new(moveTwin)
		w.x.Act.Verb = VerbTake
		if d.pick(4) == 0 {
			w.x.Act.Verb = VerbRead
		}
		for range 1 + d.pick(6) {
			w.x.ids = append(w.x.ids, d.someJob(d.conns[d.pick(len(d.conns))]))
		}
		d.moves = append(d.moves, w)
		op.Operator = &w.x
		return op
	}
	if len(d.moves) == 0 {
		return nil
	}
	w := d.moves[d.pick(len(d.moves))]
	n := min(len(w.taken), 1+d.pick(len(w.taken)+1))
	switch {
	case d.pick(3) == 0 && len(w.rows) > 0:
		op.Kind, op.Name, op.Operator = opPutCopies, []byte(d.names[d.pick(len(d.names))]), &w.x
		w.x.ids = nil
		for range w.rows {
			d.last++
			w.x.ids = append(w.x.ids, d.last)
		}
		d.twin.copied = w.rows
		return op
	case n == 0:
		d.moves = slices.DeleteFunc(d.moves, func(o *moveTwin) bool { return o == w })
		return nil
	}
	x := &OperatorOp{Act: Action{Verb: VerbDrop}, ids: slices.Clone(w.taken[len(w.taken)-n:])}
	slices.Reverse(x.ids)
	if d.pick(2) == 0 {
		x.Act.Verb, d.putBack = VerbPutBack, true
	}
	w.taken = w.taken[:len(w.taken)-n]
	op.Operator = x
	return op
}

// moved notes what a visit of a move has read.
func (d *driver) moved(op *Op) error {
	for _, w := range d.moves {
		if op.Kind != opMany || op.Operator != &w.x {
			continue
		}
		w.rows, d.twin.read = d.twin.read, nil
		if len(w.rows) != len(w.x.Jobs) {
			return fmt.Errorf("%d jobs are read, want %d", len(w.x.Jobs), len(w.rows))
		}
		for i := range w.rows {
			row, j := &w.x.Jobs[i], &w.rows[i]
			body := string(w.x.Bodies[row.BodyAt:row.BodyAt+row.BodySize]) + string(row.Large.Append(nil))
			if row.ID != j.id || row.State != j.state || body != j.body {
				return fmt.Errorf("read %+v, want %+v", row, j)
			}
			if w.x.Act.Verb == VerbTake {
				w.taken = append(w.taken, row.ID)
			}
		}
	}
	return nil
}

// endMoves puts back what is taken.
func (d *driver) endMoves() {
	for _, w := range d.moves {
		slices.Reverse(w.taken)
		d.core.Apply(d.now, made(&Op{Kind: opMany, Operator: &OperatorOp{Act: Action{Verb: VerbPutBack}, ids: w.taken}}), new(Reply))
	}
	d.moves = nil
}

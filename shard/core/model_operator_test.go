package core

import (
	"cmp"
	"fmt"
	"slices"

	"polystalk/shard/flow"
)

// act is what an operator does to one job.
func (m *model) act(j *modelJob, a *Action, admitted uint32) Status {
	switch {
	case a.Verb >= VerbRead:
		return m.actMoving(j, a.Verb, admitted)
	case j.isTaken():
		return StatusMoving
	case j.state == Reserved && !a.Force:
		return StatusInUse
	}
	switch a.Verb {
	case VerbDelete:
		m.delete(j)
	case VerbKick:
		if j.state != Buried && j.state != Delayed {
			return StatusUnfit
		}
		m.kick(j)
	case VerbBury:
		if j.state == Buried {
			return StatusUnfit
		}
		m.set(j, Buried, nil, 0)
	case VerbRelease, VerbTouch:
		if j.state != Reserved {
			return StatusUnfit
		}
		if a.Verb == VerbTouch {
			j.deadline = m.now + Time(j.ttr)*Second
		} else {
			m.happens(j.tube, flow.Return)
			m.set(j, Ready, nil, 0)
		}
	case VerbSet:
		if a.Changes&ChangeBody != 0 {
			return StatusUnfit
		}
		return m.change(j, a)
	}
	return StatusOK
}

// change changes a job, if all of it can be.
func (m *model) change(j *modelJob, a *Action) Status {
	waits := j.state == Ready || j.state == Delayed
	if a.Changes == 0 || a.Changes&ChangeDelay != 0 && !waits {
		return StatusUnfit
	}
	if a.Changes&ChangePri != 0 {
		j.pri = a.Pri
	}
	if a.Changes&ChangeTTR != 0 {
		j.ttr = a.TTR
	}
	if a.Changes&ChangeDelay != 0 && (j.state == Delayed || a.Delay > 0) {
		j.delay = a.Delay
		m.enter(j, a.Delay)
	} else if j.state == Ready {
		m.serve(j.tube)
	}
	return StatusOK
}

// operate runs an operator's operation that changes jobs.
func (m *model) operate(op *Op, r *Reply) (results []Status) {
	x := op.Operator
	switch op.Kind {
	case OpMany:
		for _, id := range x.ids {
			s := StatusNotFound
			if j := m.jobs[id]; j != nil {
				s = StatusUnwanted
				if x.Filter.States.Has(j.state) {
					s = m.act(j, &x.Act, op.Admitted)
				}
			}
			if s == StatusOK {
				r.N++
			}
			results = append(results, s)
		}
	case OpSweep:
		t, s := m.tubeNamed(string(op.Name)), State(op.N)
		v := x.Act.Verb
		switch {
		case t == nil:
			r.Status = StatusNotFound
			return nil
		case s == Reserved, v > VerbBury, v == VerbKick && s == Ready, v == VerbBury && s == Buried:
			r.Status = StatusUnfit
			return nil
		}
		list := m.in(t, s)
		slices.SortFunc(list, func(a, b *modelJob) int { return cmp.Compare(a.since, b.since) })
		for _, j := range list {
			if j.state != s || x.Filter.EnteredBy != 0 && j.at > x.Filter.EnteredBy {
				continue
			}
			m.act(j, &x.Act, 0)
			r.N++
		}
	case OpEdit:
		j := m.jobs[op.ID]
		switch {
		case j == nil:
			r.Status = StatusNotFound
		case op.Seq == 1:
			r.Status = StatusChanged // no version is that
		case j.isTaken():
			r.Status = StatusMoving
		case j.state == Reserved && !x.Act.Force:
			r.Status = StatusInUse
		default:
			was := j.body
			if x.Act.Changes&ChangeBody != 0 {
				j.body = string(op.Large.Append(op.Body)) // before anybody is given it
			}
			if r.Status = m.change(j, &x.Act); r.Status != StatusOK {
				j.body = was
			}
		}
	}
	return results
}

// operate makes an operation of an operator that changes jobs.
func (d *driver) operate(cn *conn, op *Op) {
	x := &OperatorOp{Act: Action{
		Verb: Verb(1 + d.pick(6)), Changes: Changes(d.pick(8)), Force: d.pick(2) == 0,
		Pri: op.Pri, Delay: op.Delay, TTR: d.oneOf(1, 2, 100),
	}}
	op.Operator = x
	op.Seq = 0
	switch op.Kind {
	case OpMany:
		for range 1 + d.pick(5) {
			x.ids = append(x.ids, d.someJob(cn))
		}
		if d.pick(3) == 0 {
			x.Filter.States = StatesOf(State(1+d.pick(4)), Ready)
		}
	case OpSweep:
		op.N = uint32(1 + d.pick(4))
		if d.pick(2) == 0 {
			x.Filter.EnteredBy = d.now - Time(d.pick(5))*Second
		}
	case OpEdit:
		if d.pick(2) == 0 {
			x.Act.Changes |= ChangeBody
			op.Body = fmt.Appendf(nil, "edited %d times over", d.looks)[:d.pick(15)]
			if d.pick(5) == 0 {
				op.Body, op.Large = nil, Large{make([]byte, 70_000)}
			}
		}
		switch d.pick(4) {
		case 0:
			op.Seq = 1
		case 1:
			if _, j, _ := d.core.find(op.ID); j != nil && d.core.Next() > d.now && d.core.now >= d.now {
				op.Seq = d.core.version(j)
			}
		}
	}
}

package core

import (
	"cmp"
	"fmt"
	"slices"

	"polystalk/shard/stats"
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
		m.bury(j, BuriedByOperator)
	case VerbRelease, VerbTouch:
		if j.state != Reserved {
			return StatusUnfit
		}
		if a.Verb == VerbTouch {
			j.deadline = m.now + Time(j.ttr)*Second
		} else {
			m.happens(j.tube, stats.Return)
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

// modelFlushes are the twin's jobs that are flushed.
type modelFlushes struct {
	lists        []modelList
	begun, ended uint64
	flushed      Flushed // by the last opFlush
	collectAt    Time    // the next part
	collectMost  int
}

// A modelList is what was flushed of a tube in a state, in the order in which it came.
type modelList struct {
	tube *modelTube
	jobs []*modelJob
}

// isFlushing reports whether jobs of t are to be collected.
func (m *model) isFlushing(t *modelTube) bool {
	return slices.ContainsFunc(m.lists, func(l modelList) bool { return l.tube == t })
}

// flush ends the jobs of a tube in some states.
func (m *model) flush(t *modelTube, states States, by Time, dry bool, x *Flushed) Status {
	for _, j := range m.jobs {
		if by != 0 && !dry && j.tube == t && states.Has(j.state) && j.state != Reserved && j.at > by {
			return StatusChanged
		}
	}
	for _, s := range []State{Ready, Delayed, Buried} {
		list := m.in(t, s)
		if !states.Has(s) || len(list) == 0 {
			continue
		}
		if *x.In(s) = uint64(len(list)); dry {
			continue
		}
		if len(m.lists) == 0 {
			m.collectAt = m.now
		}
		slices.SortFunc(list, func(a, b *modelJob) int { return cmp.Compare(a.since, b.since) })
		for _, j := range list {
			delete(m.jobs, j.id)
			t.deletes++
			m.flow.Deletes++
			m.happens(t, stats.Flush)
		}
		if s == Ready {
			t.flushedUntil = m.now
		} else if !m.isFlushing(t) {
			t.flushedUntil = noTime
		}
		m.lists = append(m.lists, modelList{t, list})
		m.begun++
	}
	x.Ticket, x.At = m.begun, m.now
	m.now++
	return StatusOK
}

// collect gives back the next of what is flushed.
func (m *model) collect(due Time) {
	most := m.collectMost
	if m.now-due >= collectEvery {
		most *= 2
	}
	m.collectAt = m.now + collectEvery
	for n := 0; n < most && len(m.lists) > 0; n++ {
		l := &m.lists[0]
		if l.jobs = l.jobs[1:]; len(l.jobs) == 0 {
			t := l.tube
			m.lists = m.lists[1:]
			m.ended++
			m.forget(t)
		}
	}
}

// operate runs an operator's operation that changes jobs.
func (m *model) operate(op *Op, r *Reply) (results []Status) {
	x := op.Operator
	switch op.Kind {
	case opMany:
		for _, id := range x.ids {
			s := StatusNotFound
			if j := m.jobs[id]; j != nil {
				s = StatusUnwanted
				if x.Filter.States.Has(j.state) && (x.Filter.EnteredBy == 0 || j.at <= x.Filter.EnteredBy) {
					s = m.act(j, &x.Act, op.Admitted)
				}
			}
			if s == StatusOK {
				r.N++
			}
			results = append(results, s)
		}
	case opFlushStep:
		t, s := m.tubeNamed(string(op.Name)), State(op.N)
		if t == nil {
			r.Status = StatusNotFound
			return nil
		}
		list := m.in(t, s)
		slices.SortFunc(list, func(a, b *modelJob) int { return cmp.Compare(a.since, b.since) })
		for _, j := range list {
			if x.Filter.EnteredBy == 0 || j.at <= x.Filter.EnteredBy {
				m.delete(j)
				r.N++
			}
		}
	case opFlush:
		m.flushed = Flushed{}
		t := m.tubeNamed(string(op.Name))
		if t == nil {
			r.Status = StatusNotFound
			return nil
		}
		r.Status = m.flush(t, States(op.N), x.Filter.EnteredBy, op.Wait, &m.flushed)
		r.N = uint32(m.flushed.All())
	case opAskFlushed:
		if m.ended < op.Seq {
			r.Status = StatusMore
		}
	case opEdit:
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
	case opMany:
		for range 1 + d.pick(5) {
			x.ids = append(x.ids, d.someJob(cn))
		}
		if d.pick(3) == 0 {
			x.Filter.States = StatesOf(State(1+d.pick(4)), Ready)
		}
		if d.pick(3) == 0 {
			x.Filter.EnteredBy = d.now - Time(d.pick(5))*Second
		}
	case opFlushStep:
		op.N = uint32(d.oneOf(uint32(Ready), uint32(Delayed), uint32(Buried)))
		if d.pick(2) == 0 {
			x.Filter.EnteredBy = d.now - Time(d.pick(5))*Second
		}
	case opFlush:
		op.Wait = d.pick(4) == 0
		op.N = uint32(d.oneOf(0, uint32(StatesOf(State(1+d.pick(4)))), uint32(StatesOf(State(1+d.pick(4)), Ready))))
		if d.pick(3) == 0 {
			x.Filter.EnteredBy = cmp.Or(d.twin.flushed.At, d.now) - Time(d.pick(2)*d.pick(5))*Second // often the moment of a dry run
		}
	case opAskFlushed:
		op.Seq = uint64(d.pick(int(d.twin.begun) + 2))
	case opEdit:
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

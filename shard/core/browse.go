package core

import (
	"bytes"
	"fmt"

	"polystalk/shard/stats"
)

// browsing is a visit of an operator, with its remaining work and rows.
type browsing struct {
	c    *Core
	x    *OperatorOp
	work int
	rows int
}

// browse begins a visit.
func (c *Core) browse(x *OperatorOp) browsing {
	rows := rowsMax
	if x.Limit > 0 {
		rows = min(rows, x.Limit)
	}
	return browsing{c: c, x: x, work: visitWork, rows: rows}
}

// applyOperator runs the operations of op_operator.go.
func (c *Core) applyOperator(op *Op, r *Reply) {
	switch op.Kind {
	case opFlow:
		c.applyFlow(op, r)
	case opTubes:
		c.listTubes(op.Operator, r)
	case opHead, opList, opScan, opFlushStep:
		c.applyToTube(op, r)
	case opJob:
		c.askJob(op, r)
	case opMany:
		c.actOnMany(op, r)
	case opEdit:
		c.edit(op, r)
	case opPutCopies:
		c.putCopies(op, r)
	case opHeld:
		c.listHeld(op, r)
	case opAskHolders:
		c.askHolders(op.Operator, r)
	case opPick:
		c.pick(op, r)
	case opFlush:
		c.applyFlush(op, r)
	case opAskFlushed:
		c.askFlushed(op, r)
	case opSetPolicies:
		c.setPolicies(op)
	default:
		panic(fmt.Sprintf("core: there is no operation %d", op.Kind))
	}
}

// applyToTube runs the operations on the jobs of one tube. A scan may be of all tubes.
func (c *Core) applyToTube(op *Op, r *Reply) {
	t, s, x := c.findTube(op.Name), State(op.N), op.Operator
	switch {
	case op.Kind == opScan && op.Name == nil:
		c.scan(nil, x, r)
	case t == nil:
		r.Status = StatusNotFound
	case op.Kind == opScan:
		c.scan(t, x, r)
	case op.Kind == opHead:
		c.listHead(t, s, x)
	case op.Kind == opList:
		c.listArrivals(t, s, x, r)
	default:
		c.flushStep(t, s, x, r)
	}
}

// listTubes runs a ListTubes.
func (c *Core) listTubes(x *OperatorOp, r *Reply) {
	most := TubesMost
	if x.Limit > 0 {
		most = min(most, x.Limit)
	}
	for n := 0; x.Cursor.At < uint64(len(c.tubes)); x.Cursor.At++ {
		if n == most {
			r.Status = StatusMore
			return
		}
		n++
		if t := c.tubes[x.Cursor.At]; t != nil {
			x.Tubes = append(x.Tubes, c.tubeRow(t))
		}
	}
}

// tubeRow makes the row of a tube.
func (c *Core) tubeRow(t *tube) TubeRow {
	row := TubeRow{TubeStats: c.tubeStats(t), ID: t.id, Slot: t.slot, Function: t.function != nil, Bytes: t.bytes}
	row.Oldest, _ = c.oldest(t)
	row.Held = t.held()
	if p := t.policy; p != nil {
		row.Policy, row.Policed = &p.policy.Policy, p.events
	}
	if t.flow != nil {
		for e := range row.Events {
			row.Events[e] = t.flow.Of(stats.Event(e))
		}
	}
	return row
}

// listHead runs a ListHead.
func (c *Core) listHead(t *tube, s State, x *OperatorOp) {
	b := c.browse(x)
	switch s {
	case Ready:
		x.order = t.ready.First(c.jobs, x.order, func(i uint32) bool { return b.show(i) })
	case Delayed:
		x.order = t.delay.First(c.jobs, x.order, func(i uint32) bool { return b.show(i) })
	case Buried:
		for i := t.buried.Head; i != 0 && b.show(i); i = c.jobs.At(i).Next {
		}
	}
}

// listOf returns the list of the jobs of t in a state, or nil for a state without a list.
func (t *tube) listOf(s State) *List {
	switch s {
	case Ready:
		return &t.readyList
	case Delayed:
		return &t.delayList
	case Buried:
		return &t.buried
	}
	return nil
}

// listArrivals runs a ListArrivals.
func (c *Core) listArrivals(t *tube, s State, x *OperatorOp, r *Reply) {
	l := t.listOf(s)
	if l == nil {
		r.Status = StatusNotFound
		return
	}
	b := c.browse(x)
	if !b.walk(l, x.Newest, func(j *Job) bool { return j.Tube == t.id && j.State == s }) {
		r.Status = StatusMore
	}
}

// walk shows the jobs of l that match the filter, after the job of the cursor. in reports
// whether a job is in l. walk reports whether it reached the end.
func (b *browsing) walk(l *List, newest bool, in func(*Job) bool) bool {
	c, at := b.c, &b.x.Cursor
	next := func(j *Job) uint32 {
		if newest {
			return j.Prev
		}
		return j.Next
	}
	i := l.Head
	if newest {
		i = l.Tail
	}
	seeks := at.Last != 0
	if seeks {
		if _, j, _ := c.find(at.Last); j != nil && in(j) && j.Since == at.Since {
			i, seeks = next(j), false
		}
	}
	for k := 0; seeks && k < len(at.Near); k++ {
		if _, j, _ := c.find(at.Near[k]); j != nil && in(j) && at.before(j, newest) {
			i = next(j)
			break
		}
	}
	for ; i != 0; i = next(c.jobs.At(i)) {
		if b.spent() {
			return false
		}
		j := c.jobs.At(i)
		if seeks && at.before(j, newest) {
			b.work--
			at.Near[0] = j.ID
			continue // an earlier visit has passed it
		}
		seeks = false
		if !b.look(i) {
			return false
		}
		copy(at.Near[1:], at.Near[:])
		at.Near[0] = at.Last
		at.Since, at.Last = j.Since, j.ID
	}
	return true
}

// before reports whether j is the job of the cursor, or comes before it.
func (at *Cursor) before(j *Job, newest bool) bool {
	switch {
	case j.Since == at.Since:
		return j.ID == at.Last || (j.ID < at.Last) != newest
	case newest:
		return j.Since > at.Since
	}
	return j.Since < at.Since
}

// scan runs a ScanJobs.
func (c *Core) scan(t *tube, x *OperatorOp, r *Reply) {
	b := c.browse(x)
	for {
		at, used := c.jobs.NextUsed(uint32(x.Cursor.At), b.work)
		switch {
		case used:
			b.work -= (int(at) - int(x.Cursor.At)) / 64 // words that NextUsed has read
		case at == 0: // no more
			return
		default:
			x.Cursor.At = uint64(at)
			r.Status = StatusMore
			return
		}
		x.Cursor.At = uint64(at)
		if j := c.jobs.At(at); b.spent() || (t == nil || j.Tube == t.id) && !c.isFlushed(j) && !b.look(at) {
			r.Status = StatusMore
			return
		}
		b.work--
		x.Cursor.At++
		if x.Cursor.At > 1<<32-1 {
			return
		}
	}
}

// pick runs a PickJobs.
func (c *Core) pick(op *Op, r *Reply) {
	x := op.Operator
	b := c.browse(x)
	for ; x.Cursor.At < uint64(len(x.ids)); x.Cursor.At++ {
		if b.spent() {
			r.Status = StatusMore
			return
		}
		b.work--
		i, _, t := c.find(x.ids[x.Cursor.At])
		if i != 0 && (op.Name == nil || string(op.Name) == t.name) && !b.look(i) {
			r.Status = StatusMore
			return
		}
	}
}

// spent reports whether the visit is over.
func (b *browsing) spent() bool { return b.work <= 0 || b.rows <= 0 }

// look shows a job if it matches the filter. It reports false, and shows nothing, if the visit
// has too little work left.
func (b *browsing) look(i uint32) bool {
	j := b.c.jobs.At(i)
	b.x.Looked++
	b.work--
	if !b.x.Filter.wants(j) {
		return true
	}
	if n := len(b.x.Filter.Contains); n > 0 {
		switch {
		case j.Flags&flagLarge != 0:
			if !b.x.Filter.LargeAreSearched {
				return true
			}
		case int(j.Size) < n:
			return true
		default:
			// The first body of a visit may cost more than all work, or no visit could search it.
			cost := int(j.Size)/bodyUnit + 1
			if cost > b.work && b.work < visitWork-2 {
				b.x.Looked--
				return false
			}
			b.work -= cost
			if !bytes.Contains(b.c.bodies.Get(j.Body, int(j.Size)), b.x.Filter.Contains) {
				return true
			}
		}
	}
	if !b.show(i) {
		b.x.Looked--
		return false
	}
	return true
}

// wants reports whether j matches f, without a look at its body.
func (f *Filter) wants(j *Job) bool {
	return f.States.Has(j.State) && j.ID >= f.MinID && (f.MaxID == 0 || j.ID <= f.MaxID) &&
		(f.EnteredBy == 0 || j.Since <= f.EnteredBy) && (f.CreatedBy == 0 || j.Created <= f.CreatedBy)
}

// show appends a row, or reports false if the visit is over.
func (b *browsing) show(i uint32) bool {
	if b.spent() {
		return false
	}
	c, x, j := b.c, b.x, b.c.jobs.At(i)
	b.rows--
	b.work--
	row := c.jobRow(j, x)
	if row.Large == nil && x.Body > 0 {
		row.BodySize = int(min(x.Body, j.Size))
		x.Bodies = append(x.Bodies, c.bodies.Get(j.Body, int(j.Size))[:row.BodySize]...)
		b.work -= row.BodySize / bodyUnit
	}
	x.Jobs = append(x.Jobs, row)
	return true
}

// jobRow makes the row of a job; of bodies, it adds only a large one.
func (c *Core) jobRow(j *Job, x *OperatorOp) JobRow {
	row := JobRow{
		JobStats: c.jobStats(j, c.tubes[j.Tube]), TubeID: j.Tube,
		Since: j.Since, InState: max(0, c.now-j.Since), Size: j.Size, BodyAt: len(x.Bodies),
	}
	switch {
	case isTaken(j):
		row.Moving = true
	case j.State == Reserved:
		row.Client, row.Conn = j.Client, c.clientAt(j.Client).conn
	}
	if j.Flags&flagLarge != 0 {
		row.Large = c.large.At(j.Body)
	}
	if j.State == Buried {
		row.BuriedBy = c.tubes[j.Tube].reasonOf(j)
	}
	return row
}

package admin

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

const (
	// listWithin is how long one part of a list is looked for. What was found by then is
	// answered, though it be nothing, with the place where to go on.
	listWithin = 500 * time.Millisecond
	// ShownMost is how much of each body a list shows at most, in bytes.
	ShownMost = 64 << 10
	// shownPart bytes of bodies end a part of a list.
	shownPart = 1 << 20
	// visitRows is how many jobs are looked for in a visit while their bodies are copied or
	// searched: what a visit has found must be used, however large it is.
	visitRows = 64
	// restMost is how long others have a shard at most between two visits.
	restMost = time.Millisecond
)

// An Order is that of a list of jobs.
type Order uint8

// The orders.
const (
	// Scan is that of the records: no other shows each job that is there throughout exactly
	// once, however it moves.
	Scan   Order = iota
	Next         // in which they will be served, are due, or would be kicked; the first ones alone
	Oldest       // those that have been in their state for longest first
	Newest
)

// A JobQuery says which jobs are wanted.
type JobQuery struct {
	Tube      string
	AllTubes  bool // of Scan alone
	Order     Order
	State     core.State // of all orders but Scan, which has Filter.States
	Filter    core.Filter
	OlderThan core.Time // jobs that were put so long ago, or longer; zero: all
	Limit     int
	Body      uint32 // bytes of each body, ShownMost at most
}

// A Place is where a list goes on. It is a value: the server keeps nothing for it.
type Place struct {
	Begun core.Time // when the list was
	Shard int       // of a list of all tubes
	core.Cursor
}

// A JobRow is a job of a list, with what was wanted of its body.
type JobRow struct {
	core.JobRow
	Body []byte
	Peer string // of the connection that has reserved it; empty: not known, or gone
}

// A JobPart is a part of a list of jobs.
type JobPart struct {
	Rows   []JobRow
	Looked int    // jobs that were looked at
	Next   *Place // nil: this is the end
	At     time.Time
}

// Jobs gives the jobs that are wanted, from a place on, nil being the beginning, once what it
// tells of them is durable.
func (o *Operator) Jobs(ctx context.Context, q *JobQuery, from *Place) (p *JobPart, err error) {
	var commit uint64
	err = o.read(ctx, func(c *direct.Caller) error {
		b := newBrowse(o, c, q, from)
		defer b.end()
		if err := b.run(ctx, from != nil); err != nil {
			return err
		}
		p = &b.part
		for i := range p.Rows {
			commit = max(commit, p.Rows[i].Commit)
		}
		return nil
	})
	if err == nil {
		err = o.committed(ctx, commit)
	}
	if err == nil {
		o.nameHolders(ctx, p.Rows)
	}
	return p, err
}

// A browse is a list in the making.
type browse struct {
	o     *Operator
	c     *direct.Caller
	q     *JobQuery
	at    Place
	part  JobPart
	shown int // bytes of bodies
	x     *core.OperatorOp
}

// visits are OperatorOps whose slices have grown: while a shard is owned is no time to make
// room for a thousand rows, nor for what is shown of their bodies.
var visits = sync.Pool{New: func() any { return &core.OperatorOp{Jobs: make([]core.JobRow, 0, 1000)} }}

// end gives back what visits have filled.
func (b *browse) end() {
	b.x.Filter = core.Filter{} // so that nothing is held by it
	visits.Put(b.x)
	b.x = nil
}

func newBrowse(o *Operator, c *direct.Caller, q *JobQuery, from *Place) *browse {
	b := &browse{o: o, c: c, q: q, part: JobPart{At: time.Now(), Rows: []JobRow{}}, x: visits.Get().(*core.OperatorOp)}
	if from != nil {
		b.at = *from
	} else {
		b.at.Begun = o.opts.Host.Clock.Now()
	}
	b.x.Filter, b.x.Newest, b.x.Body = q.Filter, q.Order == Newest, min(q.Body, ShownMost)
	b.x.Filter.LargeAreSearched = true
	b.x.Cursor = b.at.Cursor
	if q.OlderThan != 0 {
		b.x.Filter.CreatedBy = longAgo(b.at.Begun, q.OlderThan)
	}
	return b
}

// longAgo is so long before a moment, and never zero, which is no bound in a Filter.
func longAgo(t, ago core.Time) core.Time {
	if t -= ago; t == 0 {
		return -1
	}
	return t
}

// run makes the part. Further on in a list, a tube that is gone is the end of it.
func (b *browse) run(ctx context.Context, further bool) error {
	until := b.o.opts.Host.Clock.Now() + core.Time(listWithin)
	var start time.Time // of the visit before this one
	for more := true; more; {
		if ctx.Err() != nil {
			return wire.Busy.Problem("to look at the jobs takes too long")
		}
		if len(b.part.Rows) >= b.q.Limit || b.shown >= shownPart || b.o.opts.Host.Clock.Now() > until {
			b.at.Cursor = b.x.Cursor
			next := b.at
			b.part.Next = &next
			return nil
		}
		if !start.IsZero() {
			b.o.rest(start)
		}
		start = time.Now()
		var found bool
		more, found = b.visit()
		if !found && !further {
			return noTube(b.q.Tube)
		}
		b.take()
	}
	return nil
}

// rest leaves a shard to others for as long as a visit that began at start has had it.
func (o *Operator) rest(start time.Time) { o.sleep(min(time.Since(start), restMost)) }

// sleep leaves the shards to others for a while.
func (o *Operator) sleep(d time.Duration) {
	if o.opts.Turn != nil {
		o.opts.Turn()
		return
	}
	time.Sleep(d)
}

// visit looks at the next jobs.
func (b *browse) visit() (more, found bool) {
	q, x := b.q, b.x
	x.Jobs, x.Bodies = x.Jobs[:0], x.Bodies[:0]
	x.Limit = q.Limit - len(b.part.Rows)
	if q.Order != Next && (x.Body > 0 || len(x.Filter.Contains) > 0) { // that has one visit
		x.Limit = min(x.Limit, visitRows)
	}
	x.Bodies = slices.Grow(x.Bodies, min(x.Limit*int(x.Body), shownPart))
	switch {
	case q.Order == Next:
		return false, b.c.ListHead([]byte(q.Tube), q.State, x)
	case q.Order != Scan:
		return b.c.ListArrivals([]byte(q.Tube), q.State, x)
	case !q.AllTubes:
		return b.c.ScanTube([]byte(q.Tube), x)
	}
	more = b.c.ScanShard(b.at.Shard, x)
	if !more && b.at.Shard+1 < len(b.o.opts.Host.Map.Shards()) {
		b.at.Shard++
		x.Cursor = core.Cursor{}
		more = true
	}
	return more, true
}

// take takes what a visit has found. Large bodies are searched here, where nobody waits.
func (b *browse) take() {
	x := b.x
	b.part.Looked += x.Looked
	b.part.Rows = slices.Grow(b.part.Rows, len(x.Jobs))
	for i := range x.Jobs {
		row := JobRow{JobRow: x.Jobs[i]}
		x.Jobs[i].Large = nil // so that nothing holds it
		switch {
		case row.Large == nil:
			row.Body = bytes.Clone(x.Bodies[row.BodyAt : row.BodyAt+row.BodySize])
		case !contains(row.Large, x.Filter.Contains):
			continue
		case x.Body > 0:
			row.Body = beginning(row.Large, int(x.Body))
		}
		row.Large = nil
		b.shown += len(row.Body)
		b.part.Rows = append(b.part.Rows, row)
	}
}

// beginning is a copy of the first n bytes of a body.
func beginning(l core.Large, n int) (b []byte) {
	for _, p := range l {
		b = append(b, p[:min(len(p), n-len(b))]...)
	}
	return b
}

// contains reports whether some bytes are in a body, perhaps in several pieces.
func contains(l core.Large, want []byte) bool {
	if len(want) == 0 {
		return true
	}
	keep := len(want) - 1
	var seam []byte // the last bytes before p
	for _, p := range l {
		if bytes.Contains(p, want) || bytes.Contains(append(seam, p[:min(len(p), keep)]...), want) {
			return true
		}
		seam = append(seam, p[max(0, len(p)-keep):]...)
		seam = seam[max(0, len(seam)-keep):]
	}
	return false
}

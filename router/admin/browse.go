package admin

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

const (
	// listWithin is the longest search for one page of a list. After it, the page has the jobs
	// found so far, perhaps none, and the place where the next page begins.
	listWithin = 500 * time.Millisecond
	// ShownMost is the largest number of bytes shown of a body in a list.
	ShownMost = 64 << 10
	// shownPart is the size of the shown bodies that ends a page, in bytes.
	shownPart = 1 << 20
	// visitRows is the largest number of jobs in a visit that copies or searches bodies. All
	// jobs of a visit must be used, however large they are.
	visitRows = 64
)

// An Order is the order of a list of jobs.
type Order uint8

// The orders.
const (
	// Scan is the order of the records in memory. It is the only order that shows each job
	// exactly once even if jobs change their states meanwhile.
	Scan   Order = iota
	Next         // the jobs that are next to be reserved, due or kicked; one page only
	Oldest       // jobs that are in their state for longest come first
	Newest
)

// A JobQuery selects jobs and their order.
type JobQuery struct {
	Tube     string
	AllTubes bool // only with Scan
	// Only reports whether the jobs of a tube are shown, and counted as examined; nil: of every
	// tube.
	Only      func(tube string) bool
	Order     Order
	State     core.State // for all orders except Scan, which uses Filter.States
	Filter    core.Filter
	OlderThan core.Time // minimum age of a job; zero: any
	Limit     int
	Body      uint32 // bytes of each body, at most ShownMost
}

// A Place is the position in a list where the next page begins. The server stores nothing for it.
type Place struct {
	Begun core.Time // when the first page began
	Shard int       // in a list of all tubes
	core.Cursor
}

// A JobRow is a job in a list.
type JobRow struct {
	core.JobRow
	Body []byte // the requested part of the body
	Peer string // address of the connection that has reserved it; empty: unknown or closed
}

// buriedNames are the names of the reasons for which a job is buried.
var buriedNames = map[core.BuriedBy]string{
	core.BuriedByWorker: "worker", core.BuriedByOperator: "operator", core.BuriedByAttempts: "attempts", core.BuriedByExpiry: "expiry",
}

// Value returns the job in the form of the API, without its body.
func (j *JobRow) Value() wire.Job {
	var holder *wire.Holder
	if j.Conn != 0 {
		holder = &wire.Holder{Connection: j.Conn, Peer: j.Peer}
	}
	return wire.Job{
		ID: uint64(j.ID), Tube: wire.ShownName(j.Tube), Path: wire.PathName(j.Tube), State: j.State.String(), Moving: j.Moving,
		Pri: j.Pri, DelaySeconds: j.Delay, TTRSeconds: j.TTR,
		AgeSeconds: seconds(j.Age), StateSeconds: seconds(j.InState), LeftSeconds: seconds(j.TimeLeft),
		Reserves: j.Reserves, Timeouts: j.Timeouts, Releases: j.Releases, Buries: j.Buries, Kicks: j.Kicks,
		BuriedBy: buriedNames[j.BuriedBy], Holder: holder, Content: wire.Content{Size: int(j.Size)},
	}
}

// seconds returns a time rounded to milliseconds.
func seconds(t core.Time) float64 { return math.Round(float64(t)/1e6) / 1e3 }

// A JobPart is a page of a list of jobs.
type JobPart struct {
	Rows   []JobRow
	Looked int    // number of examined jobs
	Next   *Place // nil: this is the last page
	At     time.Time
}

// Jobs lists jobs from a place on; nil: from the beginning. It waits until the shown states are
// durable.
func (o *Operator) Jobs(ctx context.Context, q *JobQuery, from *Place) (p *JobPart, err error) {
	var commit uint64
	err = o.read(ctx, func(c *direct.Caller) error {
		x := visits.Get().(*core.OperatorOp)
		defer visits.Put(x)
		b := &browse{o: o, c: c, q: q, part: JobPart{At: time.Now(), Rows: []JobRow{}}, x: x}
		if err := b.run(ctx, from); err != nil {
			return err
		}
		p = new(JobPart)
		*p = b.part
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

// nameHolders adds the addresses of the connections that have reserved the jobs.
func (o *Operator) nameHolders(ctx context.Context, rows []JobRow) {
	var numbers []uint64
	for i := range rows {
		if n := rows[i].Conn; n != 0 {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return
	}
	peers := o.peers(ctx, numbers)
	for i := range rows {
		rows[i].Peer = peers[rows[i].Conn]
	}
}

// A browse makes one page of a list.
type browse struct {
	o     *Operator
	c     *direct.Caller
	q     *JobQuery
	at    Place
	part  JobPart
	shown int // bytes of the bodies so far
	x     *core.OperatorOp
}

// visits pools OperatorOps with grown slices, so that a visit need not allocate a thousand rows
// and their bodies while it owns a shard.
var visits = sync.Pool{New: func() any { return &core.OperatorOp{Jobs: make([]core.JobRow, 0, 1000)} }}

// longAgo returns t - ago, but never zero, which is no bound in a Filter.
func longAgo(t, ago core.Time) core.Time {
	if t -= ago; t == 0 {
		return -1
	}
	return t
}

// run makes the page. A tube that does not exist is a problem on the first page, and the end of
// the list on later pages.
func (b *browse) run(ctx context.Context, from *Place) error {
	q, x, now := b.q, b.x, b.o.opts.Host.Clock.Now()
	b.at.Begun = now
	if from != nil {
		b.at = *from
	}
	x.Filter, x.Newest, x.Body, x.Cursor = q.Filter, q.Order == Newest, min(q.Body, ShownMost), b.at.Cursor
	x.Filter.LargeAreSearched = true
	if q.OlderThan != 0 {
		x.Filter.CreatedBy = longAgo(b.at.Begun, q.OlderThan)
	}
	defer func() { x.Filter = core.Filter{} }() // it refers to the request
	until := now + core.Time(listWithin)
	var start time.Time // of the visit before this one
	for more := true; more; {
		if ctx.Err() != nil {
			return wire.Busy.Problem("the search for jobs takes too long")
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
		if !found && from == nil {
			return NoTube(b.q.Tube)
		}
		b.take()
	}
	return nil
}

// visit finds the next jobs.
func (b *browse) visit() (more, found bool) {
	q, x := b.q, b.x
	x.Jobs, x.Bodies = x.Jobs[:0], x.Bodies[:0]
	x.Limit = q.Limit - len(b.part.Rows)
	if q.Order != Next && (x.Body > 0 || len(x.Filter.Contains) > 0) { // Next has one visit
		x.Limit = min(x.Limit, visitRows)
	}
	x.Bodies = slices.Grow(x.Bodies, min(x.Limit*int(x.Body), shownPart))
	switch op := b.c.Op(); q.Order {
	case Scan:
		return b.o.scan(b.c, q, &b.at.Shard, x)
	case Next:
		op.ListHead([]byte(q.Tube), q.State, x)
	default:
		op.ListArrivals([]byte(q.Tube), q.State, x)
	}
	status := b.c.DoTube(q.Tube).Status
	return status == core.StatusMore && q.Order != Next, status != core.StatusNotFound
}

// scan visits the next part of a tube, or of all tubes in shard. At the end of a shard it sets
// shard to the next one. found is false if the tube does not exist.
func (o *Operator) scan(c *direct.Caller, q *JobQuery, shard *int, x *core.OperatorOp) (more, found bool) {
	if !q.AllTubes {
		c.Op().ScanJobs([]byte(q.Tube), x)
		status := c.DoTube(q.Tube).Status
		return status == core.StatusMore, status != core.StatusNotFound
	}
	c.Op().ScanJobs(nil, x)
	more = c.Do(*shard).Status == core.StatusMore
	if !more && *shard+1 < len(o.opts.Host.Map.Shards()) {
		*shard++
		x.Cursor = core.Cursor{}
		more = true
	}
	return more, true
}

// take adds the jobs of a visit to the page. It searches large bodies here, where the shard is
// not owned any more.
func (b *browse) take() {
	x := b.x
	if b.q.Only == nil {
		b.part.Looked += x.Looked
	}
	b.part.Rows = slices.Grow(b.part.Rows, len(x.Jobs))
	for i := range x.Jobs {
		row := JobRow{JobRow: x.Jobs[i]}
		x.Jobs[i].Large = nil // so that the collector can free it
		if b.q.Only != nil {
			if !b.q.Only(row.Tube) {
				continue
			}
			b.part.Looked++
		}
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

// beginning returns a copy of the first n bytes of a body.
func beginning(l core.Large, n int) (b []byte) {
	for _, p := range l {
		b = append(b, p[:min(len(p), n-len(b))]...)
	}
	return b
}

// contains reports whether a body contains the bytes want, also across its pieces.
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

// A selection finds the jobs of a Bulk. It stores only the jobs of one visit.
type selection struct {
	o      *Operator
	b      *Bulk
	q      *JobQuery
	ids    [][]core.JobID // by shard; nil: all jobs are scanned
	gone   uint64         // number of ids that no shard has
	toLook uint64         // jobs to examine, approximately

	// The jobs that the last visit has found, its shard, and how many of its ids have no job.
	// They are valid until the next visit.
	rows    []core.JobRow
	at      int
	missing uint64

	shard  int // of the next visit
	visits uint64
	x      core.OperatorOp
}

// newSelection returns a selection of the jobs of b that were in their states at asOf. A tube that
// does not exist is a problem, unless it may have been removed since a dry run.
func (o *Operator) newSelection(ctx context.Context, b *Bulk, asOf core.Time) (*selection, error) {
	s := &selection{o: o, b: b, q: &b.Jobs}
	f := &s.x.Filter
	*f = b.Jobs.Filter
	f.EnteredBy, f.LargeAreSearched = asOf, true
	if b.Jobs.OlderThan != 0 {
		f.CreatedBy = longAgo(asOf, b.Jobs.OlderThan)
	}
	s.x.Limit = bulkStep
	m := o.opts.Host.Map
	if b.IDs != nil {
		s.ids = make([][]core.JobID, len(m.Shards()))
		all := slices.Clone(b.IDs)
		slices.Sort(all)
		for _, id := range slices.Compact(all) {
			s.toLook++ // also without a job: an id in a forbidden tube must look the same
			if i, ok := m.OfJob(id); ok {
				s.ids[i] = append(s.ids[i], id)
			} else {
				s.gone++
			}
		}
	}
	err := o.read(ctx, func(c *direct.Caller) error {
		var there uint64
		if b.Jobs.AllTubes {
			n := c.Counts()
			there = n.Ready + n.Delayed + n.Reserved + n.Buried
		} else {
			t, ok := tubeStats(c, b.Jobs.Tube)
			if !ok && b.AsOf == 0 {
				return NoTube(b.Jobs.Tube)
			}
			there = t.Ready + t.Delayed + t.Reserved + t.Buried
		}
		if s.ids == nil {
			s.toLook = there
		}
		return nil
	})
	s.rewind()
	return s, err
}

// rewind restarts the selection at its first job.
func (s *selection) rewind() {
	s.x.Cursor, s.visits, s.missing = core.Cursor{}, 0, s.gone
	s.shard = 0
	if s.nextIDs(); s.ids == nil && !s.q.AllTubes {
		s.shard = s.o.opts.Host.Map.OfTube([]byte(s.q.Tube))
	}
}

// nextIDs skips shards without ids.
func (s *selection) nextIDs() {
	for s.shard < len(s.ids) && len(s.ids[s.shard]) == 0 {
		s.shard++
	}
}

// visit finds the next jobs. It reports whether there may be more.
func (s *selection) visit(ctx context.Context) (more bool, err error) {
	if err := s.b.goesOn(ctx); err != nil {
		return false, err
	}
	if s.visits > 0 {
		s.missing = 0
	}
	s.visits++
	s.at = s.shard
	x := &s.x
	x.Jobs, x.Looked, s.rows = x.Jobs[:0], 0, nil
	if s.ids != nil && s.shard == len(s.ids) {
		return false, nil // none of the ids has a job
	}
	before := x.Cursor.At
	start := time.Now()
	err = s.o.read(ctx, func(c *direct.Caller) error {
		if s.ids == nil {
			more, _ = s.o.scan(c, s.q, &s.shard, x)
			return nil
		}
		var tube []byte // nil: any
		if !s.q.AllTubes {
			tube = []byte(s.q.Tube)
		}
		c.Op().PickJobs(tube, s.ids[s.shard], x)
		more = c.Do(s.shard).Status == core.StatusMore
		s.missing += x.Cursor.At - before - uint64(x.Looked)
		if !more {
			x.Cursor = core.Cursor{}
			s.shard++
			s.nextIDs()
			more = s.shard < len(s.ids)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	s.o.rest(start)
	return more, s.keep(ctx)
}

// keep applies the conditions that the shard has not checked. It searches large bodies here, where
// no shard is owned.
func (s *selection) keep(ctx context.Context) error {
	s.rows = slices.DeleteFunc(s.x.Jobs, func(row core.JobRow) bool {
		return row.Large != nil && (ctx.Err() != nil || !contains(row.Large, s.x.Filter.Contains))
	})
	for i := range s.rows {
		s.rows[i].Large = nil // so that the collector can free it
	}
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	return nil
}

// step returns a step with rows of the shard that was visited last.
func (s *selection) step(rows []core.JobRow) *Step {
	// The bodies were searched already. Only an edit by an operator changes a body.
	step := &Step{Shard: s.at, Rows: rows, Filter: s.x.Filter}
	step.Filter.Contains = nil
	return step
}

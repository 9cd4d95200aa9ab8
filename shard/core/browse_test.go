package core

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"polystalk/shard/slab"
)

// A scanTwin is a scan that goes on while the driver plays: which jobs have been there since
// it began, and which it has shown.
type scanTwin struct {
	x       OperatorOp
	tube    string  // empty: all
	ids     []JobID // those that are named; nil: all
	present []JobID
	shown   map[JobID]int
	over    bool
}

// The operations are run without what is due, which the twin has not run either.

// beginScan begins a scan of what the twin has now.
func (d *driver) beginScan() *scanTwin {
	s := &scanTwin{shown: make(map[JobID]int)}
	if d.pick(3) == 0 {
		s.tube = d.names[d.pick(len(d.names))]
	}
	if d.pick(3) == 0 {
		s.x.Filter.Contains, s.x.Filter.LargeAreSearched = []byte{byte(d.pick(200))}, d.pick(2) == 0
	}
	if d.pick(3) == 0 {
		s.x.Filter.MinID, s.x.Filter.MaxID = JobID(d.pick(20)), d.last
	}
	if d.pick(3) == 0 {
		for id := range d.last + 3 {
			if d.pick(3) > 0 {
				s.ids = append(s.ids, id)
			}
		}
	}
	s.x.Limit = 1 + d.pick(5)
	for id, j := range d.twin.jobs {
		if s.wants(j) {
			s.present = append(s.present, id)
		}
	}
	return s
}

func (s *scanTwin) wants(j *modelJob) bool {
	f := &s.x.Filter
	if s.ids != nil && !slices.Contains(s.ids, j.id) || s.tube != "" && j.tube.name != s.tube {
		return false
	}
	return j.id >= f.MinID && (f.MaxID == 0 || j.id <= f.MaxID) &&
		(len(f.Contains) == 0 || len(j.body) > slab.MaxSize && f.LargeAreSearched || len(j.body) <= slab.MaxSize && strings.Contains(j.body, string(f.Contains)))
}

// scanOn makes a visit of a scan, and compares what was shown once it is over.
func (d *driver) scanOn(s *scanTwin) error {
	s.present = slices.DeleteFunc(s.present, func(id JobID) bool { j := d.twin.jobs[id]; return j == nil || !s.wants(j) })
	var name []byte
	if s.tube != "" {
		name = []byte(s.tube)
	}
	op, r := new(Op), new(Reply)
	if s.ids == nil {
		op.ScanJobs(name, &s.x)
	} else {
		op.PickJobs(name, s.ids, &s.x)
	}
	s.x.Jobs, s.x.Bodies = s.x.Jobs[:0], s.x.Bodies[:0]
	s.x.Body = uint32(d.pick(2) * 10)
	d.core.applyOperator(op, r)
	if r.Status == StatusNotFound && s.ids == nil && d.twin.tubeNamed(s.tube) == nil {
		s.over = true
		return nil // with all of its jobs
	}
	for i := range s.x.Jobs {
		row := &s.x.Jobs[i]
		j := d.twin.jobs[row.ID]
		if j == nil || !s.wants(j) {
			return fmt.Errorf("the scan shows job %d, which is not there or not wanted", row.ID)
		}
		if err := d.compareRow(&s.x, row, j); err != nil {
			return err
		}
		s.shown[row.ID]++
		if s.shown[row.ID] > 1 {
			return fmt.Errorf("the scan shows job %d twice", row.ID)
		}
	}
	if r.Status == StatusMore {
		return nil
	}
	s.over = true
	for _, id := range s.present {
		if s.shown[id] != 1 {
			return fmt.Errorf("the scan has not shown job %d, which was there", id)
		}
	}
	return nil
}

// compareRow compares a row with the twin's job.
func (d *driver) compareRow(x *OperatorOp, row *JobRow, j *modelJob) error {
	want := d.twin.jobStats(j)
	got := row.JobStats
	got.Commit = 0
	holder, conn := ClientID(0), uint64(0)
	if j.client != nil {
		holder, conn = j.client.id, j.client.conn
	}
	if got != want || row.Moving != j.isTaken() || row.Client != holder || row.Conn != conn || row.Since != j.at || row.InState != max(0, d.twin.now-j.at) || int(row.Size) != len(j.body) {
		return fmt.Errorf("row %+v, want %+v of client %d of connection %d since %d", *row, want, holder, conn, j.at)
	}
	body := string(x.Bodies[row.BodyAt : row.BodyAt+row.BodySize])
	if row.Large != nil {
		body = string(row.Large.Append(nil))
	} else if len(body) != min(int(x.Body), len(j.body)) {
		return fmt.Errorf("row of job %d has %d bytes of its body of %d", j.id, len(body), len(j.body))
	}
	if !bytes.HasPrefix([]byte(j.body), []byte(body)) {
		return fmt.Errorf("row of job %d has the body %q", j.id, body)
	}
	return nil
}

// shown runs an operation to its end, and compares the rows with jobs.
func (d *driver) shown(what string, make func(*Op, *OperatorOp), want []*modelJob) error {
	x := &OperatorOp{Limit: 1 + d.pick(4)}
	for n := 0; ; n++ {
		op, r := new(Op), new(Reply)
		make(op, x)
		d.core.applyOperator(op, r)
		if r.Status != StatusMore || n > 1000+len(want) {
			break
		}
	}
	var got, ids []JobID
	for i := range x.Jobs {
		got = append(got, x.Jobs[i].ID)
	}
	for _, j := range want {
		ids = append(ids, j.id)
	}
	if d.putBack && strings.HasSuffix(what, "first") {
		for i := range x.Jobs[min(1, len(x.Jobs)):] {
			if (x.Jobs[i].Since < x.Jobs[i+1].Since) == (what == "newest first") && x.Jobs[i].Since != x.Jobs[i+1].Since {
				return fmt.Errorf("%s: %v are not in order", what, got)
			}
		}
		slices.SortFunc(x.Jobs, func(a, b JobRow) int { return cmp.Compare(a.ID, b.ID) })
		slices.SortFunc(want, func(a, b *modelJob) int { return cmp.Compare(a.id, b.id) })
		slices.Sort(got)
		slices.Sort(ids)
	}
	if !slices.Equal(got, ids) {
		return fmt.Errorf("%s: %v, want %v", what, got, ids)
	}
	for i, j := range want {
		if err := d.compareRow(x, &x.Jobs[i], j); err != nil {
			return err
		}
	}
	return nil
}

// compareBrowsed looks at everything in every way that an operator may.
func (d *driver) compareBrowsed() error {
	byEntry := func(list []*modelJob) []*modelJob {
		slices.SortFunc(list, func(a, b *modelJob) int { return cmp.Compare(a.since, b.since) })
		return list
	}
	tubes := OperatorOp{Limit: 1 + d.pick(5)}
	for r := (Reply{Status: StatusMore}); r.Status == StatusMore; {
		op := new(Op)
		op.ListTubes(&tubes)
		r = Reply{}
		d.core.applyOperator(op, &r)
	}
	if len(tubes.Tubes) != len(d.twin.tubes) {
		return fmt.Errorf("%d tubes, want %d", len(tubes.Tubes), len(d.twin.tubes))
	}
	for i := range tubes.Tubes {
		row := &tubes.Tubes[i]
		t := d.twin.tubeNamed(row.Name)
		if t == nil || row.ID != t.id || row.TubeStats != d.twin.tubeStats(t) {
			return fmt.Errorf("row %+v does not match %+v", *row, t)
		}
		if f := d.twin.flowOf(t); row.Events != f.Events || row.Bytes != f.Bytes || row.Oldest != f.Oldest {
			return fmt.Errorf("row %+v, want the flow %+v", *row, f)
		}
	}
	t := d.twin.tubes[d.pick(len(d.twin.tubes))]
	for _, s := range []State{Ready, Delayed, Buried} {
		list := d.twin.in(t, s)
		x := &OperatorOp{Limit: 1 + d.pick(20)}
		head := list[:min(x.Limit, len(list))]
		err := d.shown("head", func(o *Op, y *OperatorOp) { y.Limit = x.Limit; o.ListHead([]byte(t.name), s, y) }, head)
		if err != nil {
			return err
		}
		byEntry(list)
		if err := d.shown("oldest first", func(o *Op, x *OperatorOp) { o.ListArrivals([]byte(t.name), s, x) }, list); err != nil {
			return err
		}
		slices.Reverse(list)
		err = d.shown("newest first", func(o *Op, x *OperatorOp) { x.Newest = true; o.ListArrivals([]byte(t.name), s, x) }, list)
		if err != nil {
			return err
		}
	}
	return d.compareHolders(byEntry)
}

// compareHolders compares the reserved jobs of all clients, and of each by itself.
func (d *driver) compareHolders(byEntry func([]*modelJob) []*modelJob) error {
	var asked OperatorOp
	for id := range ClientID(len(d.core.clients) + 1) {
		asked.Holders = append(asked.Holders, Holder{Client: id, Conn: 1}, Holder{Client: id})
		cl := d.twin.clients[id]
		if cl == nil {
			continue
		}
		asked.Holders = append(asked.Holders, Holder{Client: id, Conn: cl.conn})
		held := byEntry(d.twin.held(cl))
		if err := d.shown("held", func(o *Op, x *OperatorOp) { o.ListHeld(id, cl.conn, x) }, held); err != nil {
			return err
		}
		if err := d.shown("held by another", func(o *Op, x *OperatorOp) { o.ListHeld(id, cl.conn+1, x) }, nil); err != nil {
			return err
		}
	}
	op := new(Op)
	op.AskHolders(&asked)
	d.core.applyOperator(op, new(Reply))
	for _, h := range asked.Holders {
		want := Holder{Client: h.Client, Conn: h.Conn}
		if cl := d.twin.clients[h.Client]; cl != nil && cl.conn == h.Conn {
			held := byEntry(d.twin.held(cl))
			want.Known, want.Held, want.Waits = true, uint32(len(held)), cl.waiting
			if len(held) > 0 {
				want.Oldest = max(0, d.twin.now-held[0].at)
			}
		}
		if h != want {
			return fmt.Errorf("holder %+v, want %+v", h, want)
		}
	}
	return nil
}

// TestListGoesOnWhereItsJobHasGone: at the place that the job of the cursor had, also when
// that is farther than one visit walks, when those just before it have gone as well, and when
// all have come at one moment.
func TestListGoesOnWhereItsJobHasGone(t *testing.T) {
	for n := range 8 {
		newest, near, step := n&1 != 0, n&2 != 0, Time(n>>2)
		w := newWorld(t)
		p := w.join("a")
		const jobs = 3 * visitWork
		for range jobs {
			w.now += step
			p.last++
			w.core.Apply(w.now, &Op{Kind: OpPut, Tube: p.tube, ID: p.last, TTR: 10}, new(Reply))
		}
		x := &OperatorOp{Newest: newest}
		seen := make(map[JobID]bool)
		for visits := 0; ; visits++ {
			op, r := new(Op), new(Reply)
			x.Jobs = x.Jobs[:0]
			op.ListArrivals([]byte("a"), Ready, x)
			w.core.Apply(w.now, op, r)
			for i := range x.Jobs {
				if seen[x.Jobs[i].ID] {
					t.Fatalf("job %d is shown twice: newest first %v, near ones gone %v, %d ns apart", x.Jobs[i].ID, newest, near, step)
				}
				seen[x.Jobs[i].ID] = true
			}
			if r.Status != StatusMore {
				break
			}
			if len(x.Jobs) > 0 {
				w.core.Apply(w.now, &Op{Kind: OpDelete, ID: x.Cursor.Last}, new(Reply)) // the cursor's
				for _, id := range x.Cursor.Near {
					if near {
						w.core.Apply(w.now, &Op{Kind: OpDelete, ID: id}, new(Reply))
					}
				}
			}
			if visits > 1000 {
				t.Fatalf("it never ends: newest first %v, near ones gone %v, %d ns apart", newest, near, step)
			}
		}
		if len(seen) != jobs {
			t.Errorf("%d jobs are shown, want %d", len(seen), jobs)
		}
	}
}

// TestVisitsAreBounded: however many jobs there are, and however few are wanted. Of picked jobs, the
// visits say how many exist.
func TestVisitsAreBounded(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	body := bytes.Repeat([]byte("x"), 10*bodyUnit)
	var ids []JobID
	const jobs = 5000
	for id := JobID(1); id <= jobs; id++ {
		w.core.Apply(w.now, &Op{Kind: OpPut, Tube: p.tube, ID: id, TTR: 10, Body: body}, new(Reply))
		ids = append(ids, id, id+jobs) // every other one is not there
	}
	for name, tt := range map[string]struct {
		filter Filter
		looks  int // at most, in a visit
		shown  int
	}{
		"all":    {Filter{}, visitWork, jobs},
		"some":   {Filter{MinID: 101}, visitWork, jobs - 100},
		"none":   {Filter{States: StatesOf(Buried)}, visitWork, 0},
		"search": {Filter{Contains: []byte("y")}, visitWork/11 + 1, 0},
		"found":  {Filter{Contains: []byte("xx")}, visitWork/11 + 1, jobs},
	} {
		for _, list := range []func(o *Op, x *OperatorOp){
			func(o *Op, x *OperatorOp) { o.ScanJobs(nil, x) },
			func(o *Op, x *OperatorOp) { o.PickJobs(nil, ids, x) },
		} {
			x := &OperatorOp{Filter: tt.filter}
			looked, shown, visits := 0, 0, 0
			for more := true; more; visits++ {
				op, r := new(Op), new(Reply)
				list(op, x)
				x.Jobs = x.Jobs[:0]
				w.core.Apply(w.now, op, r)
				more = r.Status == StatusMore
				shown += len(x.Jobs)
				if looked += x.Looked; x.Looked > tt.looks || len(x.Jobs) > rowsMax || visits > jobs {
					t.Fatalf("%s: visit %d looks at %d jobs, shows %d", name, visits, x.Looked, len(x.Jobs))
				}
			}
			if looked < jobs || looked > jobs+visits || shown != tt.shown {
				t.Errorf("%s: %d jobs are looked at in %d visits, %d shown", name, looked, visits, shown)
			}
		}
	}
}

// TestBrowsingMakesNoGarbage once the asker's slices have grown.
func TestBrowsingMakesNoGarbage(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	p.fill(300, 5, 0)
	x := &OperatorOp{Body: 16}
	ids := []JobID{p.last, p.last - 1, 1 << 40}
	op, r := new(Op), new(Reply)
	if n := testing.AllocsPerRun(100, func() {
		for _, list := range []func(){
			func() { op.ScanJobs(nil, x) },
			func() { op.PickJobs(nil, ids, x) },
			func() { op.ListHead([]byte("a"), Ready, x) },
			func() { op.ListArrivals([]byte("a"), Ready, x) },
			func() { op.ListTubes(x) },
		} {
			x.Jobs, x.Bodies, x.Tubes, x.Cursor = x.Jobs[:0], x.Bodies[:0], x.Tubes[:0], Cursor{}
			list()
			w.core.Apply(w.now, op, r)
		}
	}); n > 8 {
		t.Errorf("%v allocations for 900 rows", n)
	}
}

// TestScanOfWhatIsLeftOfMany: between two jobs that are far from each other there is something
// to be looked at as well, and a visit is no longer for it.
func TestScanOfWhatIsLeftOfMany(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	w := newWorld(t)
	p := w.join("a")
	const jobs, every = 400_000, 5000
	var r Reply
	for id := JobID(1); id <= jobs; id++ {
		w.core.Apply(w.now, &Op{Kind: OpPut, Tube: p.tube, ID: id, TTR: 1}, &r)
	}
	for id := JobID(1); id <= jobs; id++ {
		if id%every != 0 {
			w.core.Apply(w.now, &Op{Kind: OpDelete, ID: id}, &r)
		}
	}
	visits, x := 1, new(OperatorOp)
	for ; w.core.scanned(x); visits++ {
		if visits > jobs {
			t.Fatal("the scan has no end")
		}
	}
	if least := jobs / 64 / visitWork; len(x.Jobs) != jobs/every || visits < least {
		t.Errorf("%d of %d jobs in %d visits, want at least %d", len(x.Jobs), jobs/every, visits, least)
	}
}

// scanned makes a visit of a scan of all jobs. It reports whether there is more.
func (c *Core) scanned(x *OperatorOp) (more bool) {
	op, r := new(Op), new(Reply)
	op.ScanJobs(nil, x)
	c.Apply(c.now, op, r)
	return r.Status == StatusMore
}

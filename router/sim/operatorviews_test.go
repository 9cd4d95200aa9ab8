package sim

import (
	"bytes"
	"context"
	"fmt"

	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// A viewing has the expected result of a read in several visits: the jobs that match all the time.
type viewing struct {
	wants   func(*core.JobView) bool
	exact   bool // only jobs that never left their state meanwhile
	present map[core.JobID]core.JobView
	gone    map[core.Time]bool // times at which jobs entered that have left since
}

// view begins a viewing with the jobs that match now.
func (b *operatorClient) view(exact bool, wants func(*core.JobView) bool) *viewing {
	v := &viewing{wants: wants, exact: exact, present: map[core.JobID]core.JobView{}, gone: map[core.Time]bool{}}
	for _, j := range b.jobs() {
		if wants(&j) {
			v.present[j.ID] = j
		}
	}
	b.moment() // later jobs enter at another time
	b.views = append(b.views, v)
	return v
}

// unview ends a viewing.
func (b *operatorClient) unview(v *viewing) {
	for i := range b.views {
		if b.views[i] == v {
			b.views = append(b.views[:i], b.views[i+1:]...)
			return
		}
	}
}

// observe removes jobs that are gone or no longer match. It is called before each event.
func (b *operatorClient) observe() {
	if len(b.views) == 0 {
		return
	}
	now := b.c.w.jobs()
	for _, v := range b.views {
		for id, was := range v.present {
			j, ok := now[uint64(id)]
			if ok && v.wants(&j) && !(v.exact && moved(&was, &j)) {
				continue
			}
			v.drop(id)
		}
	}
}

// drop removes a job from the expected result.
func (v *viewing) drop(id core.JobID) {
	if was, ok := v.present[id]; ok {
		v.gone[was.Since] = true
		delete(v.present, id)
	}
}

// moved reports whether a job has left its state, or its place there, since it was read.
func moved(was, is *core.JobView) bool {
	return is.State != was.State || is.Since != was.Since || is.Moves != was.Moves || is.Deadline != was.Deadline || is.Pri != was.Pri
}

// filter returns a random filter for look, and the same filter as a function.
func (b *operatorClient) filter() (f core.Filter, wants func(*core.JobView) bool) {
	if b.rng.IntN(2) == 0 {
		f.States = core.States(1 + b.rng.IntN(31))
	}
	if b.rng.IntN(3) == 0 {
		f.MinID = core.JobID(b.job())
	}
	if b.rng.IntN(3) == 0 {
		f.MaxID = core.JobID(b.job())
	}
	if b.rng.IntN(3) == 0 {
		f.Contains = fmt.Appendf(nil, "-%d", 1+b.rng.IntN(9))
	}
	return f, func(j *core.JobView) bool {
		return f.States.Has(j.State) && j.ID >= f.MinID && (f.MaxID == 0 || j.ID <= f.MaxID) && bytes.Contains(j.Body, f.Contains)
	}
}

// look requests all parts of a list, while others work in between, and passes each row to f. The only
// allowed problem is not-found.
func (b *operatorClient) look(q *admin.JobQuery, f func(*admin.JobRow) error) error {
	var at *admin.Place
	for first := true; first || at != nil; first = false {
		p, err := b.o.Admin.Jobs(context.Background(), q, at)
		if err != nil {
			return refusal(err, "not-found")
		}
		if len(p.Rows) > q.Limit {
			return fmt.Errorf("%d rows, at most %d are wanted", len(p.Rows), q.Limit)
		}
		for i := range p.Rows {
			if err := b.row(q, &p.Rows[i]); err != nil {
				return err
			}
			if err := f(&p.Rows[i]); err != nil {
				return err
			}
		}
		at = p.Next
		for at != nil && b.rng.IntN(2) == 0 {
			b.o.turn()
		}
	}
	return nil
}

// row checks a row without other rows.
func (b *operatorClient) row(q *admin.JobQuery, r *admin.JobRow) error {
	f := &q.Filter
	switch {
	case !q.AllTubes && r.Tube != q.Tube,
		q.Order != admin.Scan && r.State != q.State,
		!f.States.Has(r.State), r.ID < f.MinID, f.MaxID != 0 && r.ID > f.MaxID,
		len(r.Body) != int(min(q.Body, r.Size, admin.ShownMost)):
		return fmt.Errorf("row %+v with %d bytes of its body, asked for was %+v", r.JobRow, len(r.Body), q)
	}
	if len(r.Body) < int(r.Size) {
		return nil
	}
	if !bytes.Contains(r.Body, f.Contains) {
		return fmt.Errorf("row %+v contains %q, not %q", r.JobRow, r.Body, f.Contains)
	}
	return b.c.meet(string(r.Body), uint64(r.ID))
}

// body returns a random limit for the bytes of bodies.
func (b *operatorClient) body() uint32 {
	return []uint32{0, 0, 10, admin.ShownMost, 1 << 30}[b.rng.IntN(5)]
}

// scan shows each job that matches all the time exactly once, and no job twice.
func (b *operatorClient) scan(*direct.Caller) error {
	filter, wants := b.filter()
	q := &admin.JobQuery{Tube: b.name(), AllTubes: b.rng.IntN(2) == 0, Filter: filter, Limit: 1 + b.rng.IntN(6), Body: b.body()}
	if b.rng.IntN(4) == 0 {
		q.Limit = 1000
	}
	v := b.view(filter.States != 0, func(j *core.JobView) bool { return (q.AllTubes || j.Tube == q.Tube) && wants(j) })
	defer b.unview(v)
	shown := map[core.JobID]int{}
	err := b.look(q, func(r *admin.JobRow) error {
		if shown[r.ID]++; shown[r.ID] > 1 {
			return fmt.Errorf("job %d is shown twice", r.ID)
		}
		return nil
	})
	b.c.seen["scanned"] += len(shown)
	return b.unshown(v, shown, err)
}

// unshown returns an error if an expected job was not shown and there is no other error.
func (b *operatorClient) unshown(v *viewing, shown map[core.JobID]int, err error) error {
	if err != nil {
		return err
	}
	b.observe()
	for id, j := range v.present {
		if shown[id] != 1 {
			return fmt.Errorf("job %d of %q, %v since %d, is shown %d times", id, j.Tube, j.State, j.Since, shown[id])
		}
	}
	return nil
}

// list shows jobs in the order in which they entered their state, each remaining one once. If one
// of several jobs with the same time has left, another one of them may be omitted or repeated.
func (b *operatorClient) list(*direct.Caller) error {
	q := &admin.JobQuery{
		Tube: b.name(), Order: []admin.Order{admin.Oldest, admin.Newest}[b.rng.IntN(2)], Body: b.body(),
		State: []core.State{core.Ready, core.Delayed, core.Buried}[b.rng.IntN(3)], Limit: 1 + b.rng.IntN(6),
	}
	v := b.view(true, func(j *core.JobView) bool { return j.Tube == q.Tube && j.State == q.State })
	defer b.unview(v)
	shown, last := map[core.JobID]int{}, core.Time(0)
	err := b.look(q, func(r *admin.JobRow) error {
		shown[r.ID]++
		if last != 0 && r.Since != last && (r.Since < last) != (q.Order == admin.Newest) {
			return fmt.Errorf("job %d, in its state since %d, is shown behind %d", r.ID, r.Since, last)
		}
		last = r.Since
		return nil
	})
	b.c.seen["listed"] += len(shown)
	b.untie(v)
	return b.unshown(v, shown, err)
}

// untie drops expected jobs that entered at the same time as jobs that have left.
func (b *operatorClient) untie(v *viewing) {
	b.observe()
	for id, j := range v.present {
		if v.gone[j.Since] {
			delete(v.present, id)
		}
	}
}

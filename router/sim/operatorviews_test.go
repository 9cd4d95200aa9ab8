package sim

import (
	"bytes"
	"context"
	"fmt"

	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// A viewing holds what a read in several visits must show: the jobs that match and have
// been there since its start.
type viewing struct {
	wants   func(*core.JobView) bool
	exact   bool // in the same state all the time, without having left it
	present map[core.JobID]core.JobView
	gone    map[core.Time]bool // moments at which jobs came that have left since
}

// view begins a viewing with what is wanted now.
func (b *operatorClient) view(exact bool, wants func(*core.JobView) bool) *viewing {
	v := &viewing{wants: wants, exact: exact, present: map[core.JobID]core.JobView{}, gone: map[core.Time]bool{}}
	for _, j := range b.jobs() {
		if wants(&j) {
			v.present[j.ID] = j
		}
	}
	b.moment() // later clients come at another moment
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

// observe takes what is there no more, or not wanted any more, from what must be shown. It
// is called before anything happens.
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

// drop takes a job from what must be shown.
func (v *viewing) drop(id core.JobID) {
	if was, ok := v.present[id]; ok {
		v.gone[was.Since] = true
		delete(v.present, id)
	}
}

// moved reports whether a job has left its state since it was seen, or its place there.
func moved(was, is *core.JobView) bool {
	return is.State != was.State || is.Since != was.Since || is.Moves != was.Moves || is.Deadline != was.Deadline || is.Pri != was.Pri
}

// A filter for a look.
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

// look asks for all parts of a list, with others between them, and gives each row to f.
// Problems that may be are not-found alone.
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

// row checks a row by itself.
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

// body is how many bytes of bodies are wanted.
func (b *operatorClient) body() uint32 {
	return []uint32{0, 0, 10, admin.ShownMost, 1 << 30}[b.rng.IntN(5)]
}

// scan shows each job that is there and wanted all the time exactly once, and none twice.
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

// unshown reports a job that was there and not shown, unless there is another fault.
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

// list shows jobs in the order in which they came to their state, each once that stays. Of
// those that came at one moment one may be left out, or come again, if one of them has left.
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

// untie forgets those that came at the same moment as others that have left.
func (b *operatorClient) untie(v *viewing) {
	b.observe()
	for id, j := range v.present {
		if v.gone[j.Since] {
			delete(v.present, id)
		}
	}
}

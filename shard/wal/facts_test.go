package wal_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"polystalk/shard/record"
)

// facts are what records say, replayed in the most naive way.
type facts struct {
	jobs   map[uint64]*fact
	pauses map[string][2]int64 // until, length
	open   map[uint64]*fact    // bodies that are not complete
}

type fact struct {
	record.Job
	slot uint16
	want int // bytes of the body
}

func newFacts() *facts {
	return &facts{map[uint64]*fact{}, map[string][2]int64{}, map[uint64]*fact{}}
}

func (f *facts) clone() *facts {
	c := newFacts()
	for id, j := range f.jobs {
		k := *j
		c.jobs[id] = &k
	}
	maps.Copy(c.pauses, f.pauses)
	for id, j := range f.open {
		k := *j
		c.open[id] = &k
	}
	return c
}

// apply takes one record, and keeps its memory.
func (f *facts) apply(rec []byte) {
	var r record.Record
	if n, err := record.Parse(&r, rec); err != nil || n != len(rec) {
		panic(fmt.Sprint("a record of ", len(rec), " bytes parses as ", n, ": ", err))
	}
	switch r.Kind {
	case record.KindPut, record.KindCopy:
		j := &fact{r.Job, r.Slot, int(r.Chunked)}
		if r.Chunked > 0 {
			j.Body = nil
			f.open[r.ID] = j
			return
		}
		f.jobs[r.ID] = j
	case record.KindChunk:
		j := f.open[r.ID]
		if j == nil {
			panic("a Chunk of no job")
		}
		j.Body = append(j.Body[:len(j.Body):len(j.Body)], r.Body...)
		if len(j.Body) == j.want {
			delete(f.open, r.ID)
			f.jobs[r.ID] = j
		}
	case record.KindUpdate:
		j := *f.jobs[r.ID]
		j.Due, j.Pri, j.Delay, j.State, j.Counts = r.Due, r.Pri, r.Delay, r.Job.State, r.Counts
		f.jobs[r.ID] = &j
	case record.KindDelete:
		if f.jobs[r.ID] == nil {
			panic("a Delete of no job")
		}
		delete(f.jobs, r.ID)
	case record.KindPause:
		f.pauses[string(r.Tube)] = [2]int64{r.Until, r.Length}
		if r.Until == 0 {
			delete(f.pauses, string(r.Tube))
		}
	}
}

// live is what the jobs take, and a bound knows.
func (f *facts) live() (n int64) {
	for _, j := range f.jobs {
		n += record.JobSize(len(j.Tube), len(j.Body))
	}
	return n
}

// differ says how g differs from f in the slots that keep wants.
func (f *facts) differ(g *facts, now int64, keep func(slot uint16) bool, slotOf func(tube string) uint16) error {
	n := 0
	for id, b := range g.jobs {
		if !keep(b.slot) {
			continue
		}
		n++
		a := f.jobs[id]
		if a == nil {
			return fmt.Errorf("job %d is there, and should not be", id)
		}
		if err := a.differ(b, now); err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
	}
	if n != len(f.jobs) {
		for id := range f.jobs {
			if g.jobs[id] == nil {
				return fmt.Errorf("job %d is lost, one of %d", id, len(f.jobs)-n)
			}
		}
	}
	for name, p := range f.pauses {
		if p[0] > now && g.pauses[name] != p {
			return fmt.Errorf("tube %q is paused %v, want %v", name, g.pauses[name], p)
		}
	}
	for name, p := range g.pauses {
		if keep(slotOf(name)) && p[0] > now && f.pauses[name] != p {
			return fmt.Errorf("tube %q is paused %v, want %v", name, p, f.pauses[name])
		}
	}
	return nil
}

func (j *fact) differ(k *fact, now int64) error {
	if !bytes.Equal(j.Body, k.Body) {
		return fmt.Errorf("its body of %d bytes is one of %d or altered", len(j.Body), len(k.Body))
	}
	if !bytes.Equal(j.Tube, k.Tube) || j.slot != k.slot {
		return fmt.Errorf("in tube %q, want %q", k.Tube, j.Tube)
	}
	a, b := j.Job, k.Job
	a.Tube, a.Body, b.Tube, b.Body = nil, nil, nil, nil
	if a.State == record.Delayed && a.Due <= now && b.State == record.Ready && (b.Due == 0 || b.Due == a.Due) {
		b.State, b.Due = a.State, a.Due // it has become ready, when it was to be
	}
	if d := a.Due - b.Due; a.State == record.Ready && b.State == record.Ready && -1000 < d && d < 1000 {
		b.Due = a.Due // a core's time is some nanoseconds ahead of ours, and a replay's is not
	}
	if as, bs := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); as != bs {
		return fmt.Errorf("%s, want %s", bs, as)
	}
	return nil
}

// split cuts what a Buffer holds into records.
func split(b *record.Buffer, data []byte, refs []record.Ref) (recs [][]byte) {
	base := len(b.Data) - len(data)
	for total := len(data); len(data) > 0; {
		var rec, ref []byte
		rec, ref, data, refs = record.Next(data, refs, base+total-len(data))
		recs = append(recs, slices.Concat(rec, ref))
	}
	return recs
}

package core

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/shard/slab"
)

// Check walks l. known says whether a record is a job's; visit is called for each of them.
func (l *List) Check(jobs *slab.Pool[Job], known func(uint32) bool, visit func(uint32), that that) {
	n, prev := uint32(0), uint32(0)
	for i := l.Head; i != 0; {
		if !that(known(i) && n < l.N, "record %d is no job, or the list is longer than %d", i, l.N) {
			return
		}
		j := jobs.At(i)
		that(j.Prev == prev, "job %d has %d before it, not %d", j.ID, j.Prev, prev)
		visit(i)
		n++
		prev, i = i, j.Next
	}
	that(n == l.N && l.Tail == prev, "%d jobs, tail %d; counted %d, %d", n, prev, l.N, l.Tail)
}

// TestListSort: by the moment, and what has the same stays in order; also of many runs.
func TestListSort(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 8))
		jobs := slab.NewPool[Job]()
		var l List
		var want []JobID
		at := make(map[JobID]Time)
		turn := 1 + rng.IntN(300)
		for n := range rng.IntN(300) {
			i, j := jobs.Alloc()
			j.ID = JobID(n + 1)
			if j.Since = Time(n / 3); n%turn == 0 {
				j.Since = Time(rng.IntN(100)) // a run ends
			}
			at[j.ID] = j.Since
			want = append(want, j.ID)
			l.pushBack(jobs, i, j)
		}
		slices.SortStableFunc(want, func(a, b JobID) int { return cmp.Compare(at[a], at[b]) })
		l.sort(jobs)
		var got []JobID
		l.Check(jobs, anyRecord, func(i uint32) { got = append(got, jobs.At(i).ID) }, fails(t))
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		jobs.Close()
	}
}

package store

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/shard/slab"
)

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
			l.PushBack(jobs, i, j)
		}
		slices.SortStableFunc(want, func(a, b JobID) int { return cmp.Compare(at[a], at[b]) })
		l.Sort(jobs)
		var got []JobID
		l.Check(jobs, func(uint32) bool { return true }, func(i uint32) { got = append(got, jobs.At(i).ID) }, t.Errorf)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		jobs.Close()
	}
}

package core

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
			l.pushBack(jobs, i, j)
		}
		slices.SortStableFunc(want, func(a, b JobID) int { return cmp.Compare(at[a], at[b]) })
		l.sort(jobs)
		var got []JobID
		l.Check(jobs, func(uint32) bool { return true }, func(i uint32) { got = append(got, jobs.At(i).ID) }, t.Errorf)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		jobs.Close()
	}
}

// TestListPushBehind puts jobs into an empty list, at both ends and between two.
func TestListPushBehind(t *testing.T) {
	jobs := slab.NewPool[Job]()
	defer jobs.Close()
	var l List
	place := make(map[JobID]uint32)
	for id, before := range []JobID{0, 0, 1, 2, 4} { // 1 is the first, 2 before it, 3 behind 1, 4 behind 2, 5 behind 4
		i, j := jobs.Alloc()
		j.ID = JobID(id + 1)
		place[j.ID] = i
		l.pushBehind(jobs, place[before], i, j)
	}
	var got []JobID
	l.Check(jobs, func(uint32) bool { return true }, func(i uint32) { got = append(got, jobs.At(i).ID) }, t.Errorf)
	if want := []JobID{2, 4, 5, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

package core

import (
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/shard/slab"
)

// TestUniqueTableEqualsMap: random histories; in some the hashes crowd, so that there are chains.
func TestUniqueTableEqualsMap(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 5))
		kinds := []uint32{20, 300, 1 << 31}[seed%3]
		jobs := slab.NewPool[submission]()
		var table uniqueTable
		all := map[uint32][]uint32{} // hash to jobs
		remove := func(hash uint32, i int) {
			list := all[hash]
			table.Remove(jobs, list[i])
			if jobs.At(list[i]).Next != 0 {
				t.Fatal("a removed job has one behind it")
			}
			jobs.Free(list[i])
			if all[hash] = slices.Delete(list, i, i+1); len(all[hash]) == 0 {
				delete(all, hash)
			}
		}
		check := func() {
			t.Helper()
			n, slots := 0, 0
			for hash, list := range all {
				var seen []uint32
				table.find(jobs, hash, func(n uint32) bool { seen = append(seen, n); return false })
				slices.Sort(seen)
				if want := slices.Sorted(slices.Values(list)); !slices.Equal(seen, want) {
					t.Fatalf("hash %#x: jobs %v, found %v", hash, want, seen)
				}
				n += len(list)
			}
			if table.N != n || n > table.Size*bucketLoad || n > 0 && table.Size > max(uniqueMin, 2*n/bucketLoad+2) {
				t.Fatalf("%d jobs, counted %d, in %d buckets", n, table.N, table.Size)
			}
			for b := range uint32(table.Size) {
				free, first := 0, table.At(b).chain()
				for _, s := range table.At(b) {
					if s.job == 0 {
						free++
					} else if s.inUse() {
						slots++
					}
				}
				if first != 0 && free > 0 {
					t.Fatalf("bucket %d has a chain and %d free slots", b, free)
				}
				for n := first; n != 0; n = jobs.At(n).Next {
					slots++
				}
			}
			if slots != n {
				t.Fatalf("%d jobs, %d in buckets", n, slots)
			}
		}
		for step := range 6000 {
			if hash := rng.Uint32N(kinds) * 0x9E3779B1; step/1500%2 == 0 && rng.IntN(5) > 0 {
				n, x := jobs.Alloc()
				x.Hash = hash
				table.insert(jobs, n)
				all[hash] = append(all[hash], n)
			} else {
				for hash, list := range all { // any one
					remove(hash, rng.IntN(len(list)))
					break
				}
			}
			if step%150 == 0 {
				check()
			}
		}
		for hash := range all {
			for len(all[hash]) > 0 {
				remove(hash, 0)
			}
		}
		if table.N != 0 || table.chunks != nil {
			t.Fatalf("an empty table has %d jobs in %d blocks", table.N, len(table.chunks))
		}
		jobs.Close()
	}
}

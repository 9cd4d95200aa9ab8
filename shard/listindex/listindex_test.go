package listindex

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestListIndexFindsWhatIsThere keeps a list of hashes, some of them equal, and
// looks for each entry after every change.
func TestListIndexFindsWhatIsThere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var x Index
	var list []uint64
	hashOf := func(at int) uint64 { return list[at] }
	for round := range 3000 {
		grow := round/700%2 == 0
		if len(list) == 0 || rng.IntN(10) < 7 == grow {
			list = append(list, rng.Uint64()>>rng.IntN(60))
			x.Add(hashOf)
		} else {
			at, last := rng.IntN(len(list)), len(list)-1
			x.Remove(at, hashOf)
			list[at] = list[last]
			list = list[:last]
		}
		if x.Len() != len(list) {
			t.Fatalf("%d entries, want %d", x.Len(), len(list))
		}
		if round%50 != 0 {
			continue
		}
		for at, hash := range list {
			var seen []int
			for i := x.First(hash); i >= 0 && len(seen) <= len(list); i = x.Next(i) {
				seen = append(seen, i)
			}
			if !slices.Contains(seen, at) || len(seen) > len(list) {
				t.Fatalf("round %d: entry %d of %d is not among %v", round, at, len(list), seen)
			}
		}
		if x.First(rng.Uint64()) >= len(list) {
			t.Fatal("an entry beyond the end")
		}
	}
	for len(list) > 0 {
		x.Remove(0, hashOf)
		list[0] = list[len(list)-1]
		list = list[:len(list)-1]
	}
	if x.First(0) != -1 || cap(x.heads) > 64 || cap(x.next) > 64 {
		t.Errorf("empty, and yet %d, room for %d and %d", x.First(0), cap(x.heads), cap(x.next))
	}
}

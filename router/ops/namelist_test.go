package ops

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A snapshot stays what it was, whatever becomes of the list.
func TestNameListSnapshots(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l NameList
	var model []string
	type pair struct {
		got  *NameList
		want []string
	}
	var taken []pair
	for i := range 20_000 {
		if grow := i%8000 < 4000; rng.IntN(10) < 4 != grow || len(model) == 0 {
			name := fmt.Sprint(i)
			l.add(name)
			model = append(model, name)
		} else {
			at := rng.IntN(len(model))
			l.remove(at)
			model[at] = model[len(model)-1]
			model = model[:len(model)-1]
		}
		if rng.IntN(400) == 0 {
			taken = append(taken, pair{l.snapshot(), slices.Clone(model)})
		}
	}
	taken = append(taken, pair{&l, model})
	for i, p := range taken {
		var got []string
		for at := range p.got.Len() {
			got = append(got, p.got.At(at))
		}
		if !slices.Equal(got, p.want) {
			t.Fatalf("snapshot %d: %d names, want %d", i, len(got), len(p.want))
		}
	}
}

package ops

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// In plain naming, letters are folded, and a name with a space is foreign and shown in quotes.
var plain = Naming{
	Fold: strings.ToLower,
	Shown: func(name string) (n int, foreign bool) {
		if foreign = strings.Contains(name, " "); foreign {
			return len(name) + 2, true
		}
		return len(name), false
	},
}

// all returns the names.
func all(d *Tubes) []string {
	l, _ := d.Names()
	return slices.Collect(l.All())
}

// TestTubesAreAsANaiveList: after random changes, names are in the order of list-tubes, their length
// and the foreign names are right, folded names are found, and snapshots are unchanged.
func TestTubesAreAsANaiveList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d := newTubes(plain)
	var model []string
	type pair struct {
		got  *nameList
		want []string
	}
	var taken []pair
	for i := range 20_000 {
		if grow := i%8000 < 4000; rng.IntN(10) < 4 != grow || len(model) == 0 {
			name := fmt.Sprint([]string{"a", "A", "b c", "B c", ""}[rng.IntN(5)], i/4)
			if slices.Contains(model, name) {
				continue
			}
			d.TubeAdded(name)
			model = append(model, name)
		} else {
			at := rng.IntN(len(model))
			d.TubeRemoved(model[at])
			model[at] = model[len(model)-1]
			model = model[:len(model)-1]
		}
		if rng.IntN(400) > 0 && i < 19_900 {
			continue
		}
		l, foreign := d.Names()
		taken = append(taken, pair{l, slices.Clone(model)})
		shown := 0
		for _, name := range model {
			n, _ := plain.Shown(name)
			shown += n
		}
		isForeign := slices.ContainsFunc(model, func(name string) bool { return strings.Contains(name, " ") })
		if l.ShownBytes() != shown || foreign != isForeign || d.Len() != len(model) || l.Len() != len(model) {
			t.Fatalf("%d (%d) names of %d bytes, foreign %v; want %d of %d, %v", d.Len(), l.Len(), l.ShownBytes(), foreign, len(model), shown, isForeign)
		}
		if err := d.check(); err != nil {
			t.Fatal(err)
		}
		for _, k := range []int{i, i - 40} {
			name := fmt.Sprint("A", k/4)
			folds := slices.DeleteFunc(slices.Clone(model), func(s string) bool { return !strings.EqualFold(s, name) })
			want := name
			if lower := strings.ToLower(name); len(folds) > 0 && !slices.Contains(folds, name) {
				want = folds[0]
				if slices.Contains(folds, lower) {
					want = lower
				}
			}
			if got := d.FindFolded(name); got != want {
				t.Fatalf("%q is taken for %q, want %q", name, got, want)
			}
		}
	}
	for i, p := range taken {
		if got := slices.Collect(p.got.All()); !slices.Equal(got, p.want) {
			t.Fatalf("snapshot %d: %d names, want %d", i, len(got), len(p.want))
		}
	}
	for _, name := range model {
		d.TubeRemoved(name)
	}
	if d.Len() != 0 || len(d.folded) != 0 || d.foreign != 0 {
		t.Errorf("%d tubes and %v are left", d.Len(), d.folded)
	}
}

// TestTubesOfManyShards: shards add and remove tubes at the same time.
func TestTubesOfManyShards(t *testing.T) {
	d := newTubes(plain)
	var wg sync.WaitGroup
	var want []string
	for g := range 8 {
		want = append(want, fmt.Sprint(g, "-last"))
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			mine := map[string]bool{}
			for range 5000 {
				name := fmt.Sprintf("%d-%d", g, rng.IntN(50))
				if mine[name] = !mine[name]; mine[name] {
					d.TubeAdded(name)
				} else {
					d.TubeRemoved(name)
				}
				if rng.IntN(100) == 0 {
					all(d)
				}
			}
			for name, there := range mine {
				if there {
					d.TubeRemoved(name)
				}
			}
			d.TubeAdded(want[g])
		})
	}
	wg.Wait()
	if err := d.check(); err != nil {
		t.Error(err)
	}
	if got := all(d); !slices.Equal(slices.Sorted(slices.Values(got)), want) || d.Len() != len(want) {
		t.Errorf("%d tubes: %q, want %q", d.Len(), got, want)
	}
}

// check returns an error if the names contradict each other. It walks all names with the lock
// held.
func (t *Tubes) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	foreign, shown, folded := 0, 0, 0
	for i := range t.names.n {
		name := t.names.At(i)
		if at, ok := t.at[name]; !ok || at != i {
			return fmt.Errorf("tube %q is number %d, and is looked for at %d (%t)", name, i, at, ok)
		}
		n, isForeign := t.naming.Shown(name)
		if shown += n; isForeign {
			foreign++
		}
		if f := t.naming.Fold(name); f != name {
			if folded++; !slices.Contains(t.folded[f], name) {
				return fmt.Errorf("tube %q is not found by %q", name, f)
			}
		}
	}
	for f, same := range t.folded {
		if folded -= len(same); len(same) == 0 {
			return fmt.Errorf("nothing is folded to %q", f)
		}
	}
	if n := t.names.n; len(t.at) != n || t.Len() != n || t.foreign != foreign || t.names.shown != shown || folded != 0 {
		return fmt.Errorf("%d tubes, of which %d are foreign, shown in %d bytes: %d places, counted %d, %d and %d; %d folded names too few",
			n, foreign, shown, len(t.at), t.Len(), t.foreign, t.names.shown, folded)
	}
	return nil
}

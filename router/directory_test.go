package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func TestDirectoryFillsAGapWithTheLastTube(t *testing.T) {
	d := newDirectory()
	for _, name := range []string{"default", "a", "b", "c"} {
		d.TubeAdded(name)
	}
	steps := []struct {
		remove string
		want   []string
	}{
		{"a", []string{"default", "c", "b"}},
		{"b", []string{"default", "c"}},
		{"default", []string{"c"}},
		{"c", nil},
	}
	for _, s := range steps {
		d.TubeRemoved(s.remove)
		if got := d.all(); !slices.Equal(got, s.want) || d.size() != len(s.want) {
			t.Errorf("without %q: %q (%d), want %q", s.remove, got, d.size(), s.want)
		}
	}
}

func TestDirectoryListIsACopy(t *testing.T) {
	d := newDirectory()
	d.TubeAdded("a")
	d.TubeAdded("b")
	list := d.all()
	d.TubeRemoved("a")
	list[1] = "x"
	if got := d.all(); !slices.Equal(got, []string{"b"}) || list[0] != "a" {
		t.Errorf("the directory says %q, the list %q", got, list)
	}
}

func TestDirectoryHearsOfManyShards(t *testing.T) {
	d := newDirectory()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			mine := map[string]bool{}
			for range 5000 {
				name := fmt.Sprintf("%d-%d", g, rng.IntN(50))
				if mine[name] {
					d.TubeRemoved(name)
				} else {
					d.TubeAdded(name)
				}
				mine[name] = !mine[name]
				if rng.IntN(100) == 0 {
					d.all()
				}
			}
			for n := range 50 {
				if name := fmt.Sprintf("%d-%d", g, n); mine[name] != (n%2 == 0) {
					if mine[name] {
						d.TubeRemoved(name)
					} else {
						d.TubeAdded(name)
					}
				}
			}
		})
	}
	wg.Wait()
	var want []string
	for g := range 8 {
		for n := 0; n < 50; n += 2 {
			want = append(want, fmt.Sprintf("%d-%d", g, n))
		}
	}
	got := d.all()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || d.size() != len(want) {
		t.Errorf("%d tubes (%d), want %d: %q", len(got), d.size(), len(want), got)
	}
}

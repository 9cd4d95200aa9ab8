package ops

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// plain naming: letters fold, a name with a blank is foreign, and shown in quotes.
var plain = Naming{
	Fold: strings.ToLower,
	Shown: func(name string) (n int, foreign bool) {
		if foreign = strings.Contains(name, " "); foreign {
			return len(name) + 2, true
		}
		return len(name), false
	},
}

// all are the names.
func all(d *Tubes) []string {
	l, _ := d.Names()
	return slices.Collect(l.All())
}

func TestTubesFillAGapWithTheLastTube(t *testing.T) {
	d := newTubes(plain)
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
		if got := all(d); !slices.Equal(got, s.want) || d.Len() != len(s.want) {
			t.Errorf("without %q: %q (%d), want %q", s.remove, got, d.Len(), s.want)
		}
	}
}

func TestTubeNamesAreACopy(t *testing.T) {
	d := newTubes(plain)
	d.TubeAdded("a")
	d.TubeAdded("b")
	list := all(d)
	d.TubeRemoved("a")
	list[1] = "x"
	if got := all(d); !slices.Equal(got, []string{"b"}) || list[0] != "a" {
		t.Errorf("the tubes are %q, the list %q", got, list)
	}
}

func TestTubesHearOfManyShards(t *testing.T) {
	d := newTubes(plain)
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
					all(d)
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
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	var want []string
	for g := range 8 {
		for n := 0; n < 50; n += 2 {
			want = append(want, fmt.Sprintf("%d-%d", g, n))
		}
	}
	got := all(d)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || d.Len() != len(want) {
		t.Errorf("%d tubes (%d), want %d: %q", len(got), d.Len(), len(want), got)
	}
}

// A name is found by another case of its letters, unless there is one of its own; what is
// gone leaves nothing.
func TestTubesFindFolded(t *testing.T) {
	d := newTubes(plain)
	wants := func(name, want string) {
		t.Helper()
		if got := d.FindFolded(name); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
		if err := d.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"Mail", "mail", "MAIL", "Other"} {
		d.TubeAdded(name)
	}
	for _, step := range []struct{ name, want string }{
		{"MAIL", "MAIL"}, {"MAIL", "mail"}, {"MAIL", "Mail"}, {"MAIL", "MAIL"}, {"oTHER", "Other"}, {"other", "other"},
	} {
		wants(step.name, step.want)
		if slices.Contains(all(d), step.want) {
			d.TubeRemoved(step.want)
		}
	}
	if d.Len() != 0 || len(d.folded) != 0 {
		t.Errorf("%d tubes and %v are left", d.Len(), d.folded)
	}
}

// The list tells how long it is as it is shown, and whether names of it are foreign.
func TestTubesAreShown(t *testing.T) {
	d := newTubes(plain)
	for _, step := range []struct {
		add, remove string
		shown       int
		foreign     bool
	}{
		{"a", "", 1, false}, {"b c", "", 6, true}, {"d e", "", 11, true}, {"", "b c", 6, true}, {"", "d e", 1, false}, {"", "a", 0, false},
	} {
		if step.add != "" {
			d.TubeAdded(step.add)
		} else {
			d.TubeRemoved(step.remove)
		}
		if l, foreign := d.Names(); l.ShownBytes() != step.shown || foreign != step.foreign {
			t.Errorf("after %+v: %d bytes, foreign: %v", step, l.ShownBytes(), foreign)
		}
	}
}

// A tube cannot come twice, nor go when it is not there.
func TestTubesPanicOnWhatCannotBe(t *testing.T) {
	d := newTubes(plain)
	d.TubeAdded("a")
	for name, f := range map[string]func(){"added": func() { d.TubeAdded("a") }, "removed": func() { d.TubeRemoved("b") }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic: %s", name)
				}
			}()
			f()
		}()
	}
}

package gearmand

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/router/ops"
	"polystalk/shard/core"
)

// TestAbilitiesTakeTurns: removing a function costs the same in a long list and in a short one, and
// does not change the turns of the other functions.
func TestAbilitiesTakeTurns(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	machine := core.New(ops.NewMap(ops.MapOptions{Shards: 1, BodyFreed: func(core.Large) {}, Naming: ops.Naming{
		Fold:  func(name string) string { return name },
		Shown: func(name string) (int, bool) { return len(name), false },
	}}).Directory())
	var (
		op core.Op
		r  core.Reply
	)
	ready := func(name string) ability { // a function with a job
		op.Use([]byte(name), 0)
		machine.Apply(1, &op, &r)
		face := r.Face
		op.Put(face.ID(), core.JobID(face.ID()), 0, 0, 60, []byte("x"), nil)
		machine.Apply(1, &op, &r)
		op.AskMirror(face.ID())
		machine.Apply(1, &op, &r)
		return ability{Face: face}
	}
	var l abilities
	var model []string // the next function to serve is the last
	for i := range 20_000 {
		switch r := rng.IntN(4); {
		case r < 2 && len(model) < 40 || len(model) == 0:
			name := fmt.Sprint("f", i)
			l.add(ready(name))
			model = append(model, name)
		case r == 2:
			at := rng.IntN(len(model))
			name := model[at]
			if i := l.Find([]byte(name)); i < 0 || l.Delete(i).Name() != name {
				t.Fatalf("%q is not found", name)
			}
			model = slices.Delete(model, at, at+1)
		default:
			at, _ := l.best()
			last := model[len(model)-1]
			if got := l.List[at].Name(); got != last {
				t.Fatalf("%d functions: the turn is that of %q, want %q", len(model), got, last)
			}
			l.serve(at)
			model = slices.Insert(model[:len(model)-1], 0, last)
		}
		if l.Find([]byte("none")) >= 0 {
			t.Fatal("a missing entry is found")
		}
	}
}

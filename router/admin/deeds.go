package admin

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	wire "polystalk/codec/admin"
	"polystalk/shard/core"
)

// What came of a deed: it was done, or else the slug of a problem; of jobs, that they were
// left as they were.
const (
	done    = "done"
	skipped = "skipped"
)

// A Deed is what operators did, by what came of it.
type Deed struct{ Action, Result string }

// A DeedCount is how often, or to how many jobs, something was done.
type DeedCount struct {
	Deed
	Count uint64
}

// deeds counts what changes something. Those who only look are not counted here.
type deeds struct {
	mu               sync.Mutex
	operations, jobs map[Deed]uint64
}

// What can be done to jobs, and to all else. Each is shown from the start, so that the first
// time is seen as one more than none.
var (
	jobActions   = []string{"put", "set", "delete", "kick", "bury", "release", "move", "copy", "flush"}
	otherActions = []string{"pause", "kill", "drain", "undrain"}
)

// verbActions are the actions that bulk operations have.
var verbActions = map[core.Verb]string{
	core.VerbDelete: "delete", core.VerbKick: "kick", core.VerbBury: "bury", core.VerbRelease: "release", core.VerbSet: "set",
}

func (d *deeds) init() {
	d.operations, d.jobs = make(map[Deed]uint64), make(map[Deed]uint64)
	for _, a := range jobActions {
		d.operations[Deed{a, done}] = 0
		d.jobs[Deed{a, done}], d.jobs[Deed{a, skipped}] = 0, 0
	}
	for _, a := range otherActions {
		d.operations[Deed{a, done}] = 0
	}
}

// count counts one operation, and the jobs that it has changed and left as they were.
func (d *deeds) count(action string, changed, left uint64, err error) {
	result := done
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		result = strings.TrimPrefix(p.Type, wire.ProblemPath)
	} else if err != nil {
		result = wire.Failed.Slug
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operations[Deed{action, result}]++
	if changed > 0 {
		d.jobs[Deed{action, done}] += changed
	}
	if left > 0 {
		d.jobs[Deed{action, skipped}] += left
	}
}

// did counts an operation on one job, once it has ended with *err: it is to be deferred.
func (o *Operator) did(action string, err *error) {
	changed := uint64(1)
	if *err != nil {
		changed = 0
	}
	o.deeds.count(action, changed, 0, *err)
}

// Deeds are how many operations operators have done, and to how many jobs, in the order of
// their names. At any time.
func (o *Operator) Deeds() (operations, jobs []DeedCount) {
	o.deeds.mu.Lock()
	defer o.deeds.mu.Unlock()
	return inOrder(o.deeds.operations), inOrder(o.deeds.jobs)
}

func inOrder(m map[Deed]uint64) (list []DeedCount) {
	deeds := slices.SortedFunc(maps.Keys(m), func(a, b Deed) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Result, b.Result))
	})
	for _, d := range deeds {
		list = append(list, DeedCount{d, m[d]})
	}
	return list
}

package admin

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	wire "polystalk/codec/admin"
)

// An ActionCount counts operations of operators, or the jobs that they were done to, by
// action and result. The result is "done" or the slug of a problem; for jobs, "done" or
// "skipped".
type ActionCount struct {
	Action, Result string
	Count          uint64
}

const (
	done    = "done"
	skipped = "skipped"
)

// counts counts operations that change something, not reads. A key is action and result.
type counts struct {
	mu               sync.Mutex
	operations, jobs map[[2]string]uint64
}

// The actions on jobs, and all others. Each is shown from the start, so that the first one
// shows as an increase.
var (
	jobActions   = []string{"put", "set", "delete", "kick", "bury", "release", "move", "copy", "flush"}
	otherActions = []string{"pause", "kill", "drain", "undrain"}
)

func (d *counts) init() {
	d.operations, d.jobs = make(map[[2]string]uint64), make(map[[2]string]uint64)
	for _, a := range jobActions {
		d.operations[[2]string{a, done}] = 0
		d.jobs[[2]string{a, done}], d.jobs[[2]string{a, skipped}] = 0, 0
	}
	for _, a := range otherActions {
		d.operations[[2]string{a, done}] = 0
	}
}

// add counts an operation that has ended with err, the jobs that it has changed, and the
// jobs that it has skipped.
func (d *counts) add(action string, changed, left uint64, err error) {
	result := done
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		result = strings.TrimPrefix(p.Type, wire.ProblemPath)
	} else if err != nil {
		result = wire.Failed.Slug
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operations[[2]string{action, result}]++
	if changed > 0 {
		d.jobs[[2]string{action, done}] += changed
	}
	if left > 0 {
		d.jobs[[2]string{action, skipped}] += left
	}
}

// did is deferred by an operation on one job, and counts it by its result.
func (o *Operator) did(action string, err *error) {
	changed := uint64(1)
	if *err != nil {
		changed = 0
	}
	o.counts.add(action, changed, 0, *err)
}

// ActionCounts returns how many operations were done, and to how many jobs, sorted by
// action and result.
func (o *Operator) ActionCounts() (operations, jobs []ActionCount) {
	o.counts.mu.Lock()
	defer o.counts.mu.Unlock()
	return sorted(o.counts.operations), sorted(o.counts.jobs)
}

func sorted(m map[[2]string]uint64) (list []ActionCount) {
	for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		list = append(list, ActionCount{k[0], k[1], m[k]})
	}
	return list
}

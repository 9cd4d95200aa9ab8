package admin

import (
	"errors"
	"maps"
	"strings"
	"sync"

	wire "polystalk/codec/admin"
)

const (
	done    = "done"
	skipped = "skipped"
)

// counts counts operations that are changes, not reads.
type counts struct {
	mu               sync.Mutex
	operations, jobs ActionCount
}

// The actions on jobs, and the other actions. Each is shown from the start with the count zero,
// so that the first operation is an increase.
var (
	jobActions   = []string{"put", "set", "delete", "kick", "bury", "release", "move", "copy", "flush"}
	otherActions = []string{"pause", "kill", "drain", "undrain", "policies"}
)

func (d *counts) init() {
	d.operations, d.jobs = make(ActionCount), make(ActionCount)
	for _, a := range jobActions {
		d.operations[[2]string{a, done}] = 0
		d.jobs[[2]string{a, done}], d.jobs[[2]string{a, skipped}] = 0, 0
	}
	for _, a := range otherActions {
		d.operations[[2]string{a, done}] = 0
	}
}

// add counts an operation that has ended with err. It has changed changed jobs, and skipped left
// jobs.
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

// did counts an operation on one job, which must defer it.
func (o *Operator) did(action string, err *error) {
	changed := uint64(1)
	if *err != nil {
		changed = 0
	}
	o.counts.add(action, changed, 0, *err)
}

// An ActionCount counts operators' operations, or their jobs, by action and result. The result of
// an operation is "done" or the slug of a problem. The result of a job is "done" or "skipped".
type ActionCount map[[2]string]uint64

// ActionCounts returns the counts of operations and of jobs.
func (o *Operator) ActionCounts() (operations, jobs ActionCount) {
	o.counts.mu.Lock()
	defer o.counts.mu.Unlock()
	return maps.Clone(o.counts.operations), maps.Clone(o.counts.jobs)
}

package core

import (
	"errors"
	"fmt"
)

// Check walks the whole core and returns every broken invariant, or nil. It changes nothing.
// Its cost is linear in jobs, watches and handles, so it is for tests and diagnosis, not for
// every command.
func (c *Core) Check() error {
	k := checker{c: c, at: make(map[uint32]string, c.jobs.Len())}
	c.ids.Check(c.jobs, k.at, k.fail) // all other places are compared with what it finds
	k.tubes()
	k.moves()
	k.flushed()
	k.clients()
	k.waits()
	k.timers()
	k.bodies()
	k.handles()
	k.counters()
	k.submissions()
	return errors.Join(k.errs...)
}

// checkErrorsMax is how many broken invariants one Check tells: one bad link
// may break thousands, and the first ones say what happened.
const checkErrorsMax = 20

// A checker is one walk: what it found so far.
type checker struct {
	c    *Core
	errs []error

	// at names the place in which each job of the id table was found; empty
	// until then.
	at   map[uint32]string
	sums coreCounts // added up from the jobs themselves
}

// fail notes a broken invariant.
func (k *checker) fail(format string, args ...any) {
	if len(k.errs) < checkErrorsMax {
		k.errs = append(k.errs, fmt.Errorf(format, args...))
	}
}

// known reports whether record i is a job's.
func (k *checker) known(i uint32) bool {
	_, known := k.at[i]
	return known
}

// failAt is fail for what is at a place.
func (k *checker) failAt(where string) func(string, ...any) {
	return func(format string, args ...any) { k.fail("%s: %s", where, fmt.Sprintf(format, args...)) }
}

// heap checks h and calls visit for each entry.
func (k *checker) heap(where string, h *Heap, visit func(entry)) {
	h.Check(k.c.jobs, k.known, visit, k.failAt(where))
}

// list checks l and calls visit for each job.
func (k *checker) list(where string, l *List, visit func(uint32)) {
	l.Check(k.c.jobs, k.known, visit, k.failAt(where))
}

// place notes that job i was found in a container of its state; nil when it
// cannot be looked at.
func (k *checker) place(i uint32, s State, where string) *Job {
	seen, known := k.at[i]
	if !known {
		k.fail("%s: record %d is no job of the id table", where, i)
		return nil
	}
	j := k.c.jobs.At(i)
	if seen != "" {
		k.fail("%s: job %d is in %s too", where, j.ID, seen)
	}
	if j.State != s {
		k.fail("%s: job %d is %s", where, j.ID, j.State)
	}
	k.at[i] = where
	return j
}

// handles checks that each handle is either in use or free, once.
func (k *checker) handles() {
	checkHandles(k, "tubes", k.c.tubes, k.c.freeTubes)
	checkHandles(k, "clients", k.c.clients, k.c.freeClients)
}

// checkHandles checks one table of handles.
func checkHandles[T any, ID ~uint32](k *checker, what string, all []*T, free []ID) {
	if len(all) == 0 || all[0] != nil {
		k.fail("%s: handle 0 is in use", what)
	}
	seen := make(map[ID]bool, len(free))
	// In the order in which they were freed.
	for _, id := range free {
		if id == 0 || int(id) >= len(all) || all[id] != nil || seen[id] {
			k.fail("%s: handle %d is free and in use, or free twice", what, id)
		}
		seen[id] = true
	}
	used := 0
	for _, x := range all {
		if x != nil {
			used++
		}
	}
	if used+len(seen)+1 != len(all) {
		k.fail("%s: %d handles, %d in use, %d free", what, len(all)-1, used, len(seen))
	}
}

// counters checks the sums that the core keeps.
func (k *checker) counters() {
	got := k.c.counts
	k.sums.Total, k.sums.Timeouts = got.Total, got.Timeouts // only ever grow: nothing to add up
	if got != k.sums {
		k.fail("counters: %+v, added up %+v", got, k.sums)
	}
	deletes := uint64(0)
	for _, t := range k.c.tubes {
		if t != nil {
			deletes += t.deletes
		}
	}
	// Those of tubes that are forgotten went with them.
	if jobs := uint64(k.c.jobCount()); got.Total+uint64(k.c.sums.arrived) < jobs+deletes {
		k.fail("counters: %d jobs put, %d arrived, %d deleted, %d now", got.Total, k.c.sums.arrived, deletes, jobs)
	}
}

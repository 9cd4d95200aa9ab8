// Package history checks that a history of commands is linearizable. The commands may
// overlap in time. Check looks for an order in which each command takes effect at one
// moment between its call and its return, and a single queue gives every answer. It uses
// the search by Wing and Gong with Lowe's addition: no state is searched twice for the
// same set of commands.
//
// Source: Wing, Gong: Testing and verifying concurrent objects (1993); Lowe: Testing
// for linearizability (2017).
package history

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Kind is the kind of an Op.
type Kind uint8

// The commands, and the events without a command. Comments name the fields they use.
const (
	Put       Kind = iota + 1 // Job, Tube, Pri, Delayed
	Reserve                   // Watch; Job: zero when the answer was that there is none
	Delete                    // Job, Found
	Release                   // Job, Pri, Found
	Bury                      // Job, Pri, Found
	KickJob                   // Job, Found
	Pause                     // Tube
	Unpause                   // Tube
	DelayEnds                 // Job; nothing happens if it is not delayed
	HoldEnds                  // Job, Client; nothing happens if that one does not hold it
)

var kindNames = [...]string{"", "put", "reserve", "delete", "release", "bury", "kick-job", "pause", "unpause", "delay ends", "hold ends"}

// Pending is the Return of an Op that was not answered.
const Pending = math.MaxInt64

// An Op is one command and its answer. Call and Return are in any unit; an Op that
// returned before another was called took effect before it.
type Op struct {
	Kind         Kind
	Client       int
	Call, Return int64
	Job          uint64
	Pri          uint32
	Tube         int
	Watch        []bool // by tube
	Delayed      bool
	Found        bool
}

// String describes o for a failure report.
func (o *Op) String() string {
	s := fmt.Sprintf("[%d, %d] client %d: %s", o.Call, o.Return, o.Client, kindNames[o.Kind])
	if o.Return == Pending {
		s = fmt.Sprintf("[%d, …] client %d: %s", o.Call, o.Client, kindNames[o.Kind])
	}
	switch o.Kind {
	case Put:
		return fmt.Sprintf("%s job %d, priority %d, tube %d, delayed %v", s, o.Job, o.Pri, o.Tube, o.Delayed)
	case Reserve:
		var list []int
		for t, w := range o.Watch {
			if w && len(list) < 20 {
				list = append(list, t)
			}
		}
		return fmt.Sprintf("%s job %d from %v", s, o.Job, list)
	case Pause, Unpause:
		return fmt.Sprintf("%s tube %d", s, o.Tube)
	case Release, Bury:
		return fmt.Sprintf("%s job %d, priority %d, found %v", s, o.Job, o.Pri, o.Found)
	}
	return fmt.Sprintf("%s job %d, found %v", s, o.Job, o.Found)
}

// ErrUndecided is returned when a search took too many steps.
var ErrUndecided = errors.New("history: too many orders to try")

// stepMax bounds a search.
const stepMax = 5_000_000

// entry is the beginning or the end of an Op in the order of time.
type entry struct {
	op         int
	at         int64
	end        *entry // of a beginning; nil of an end
	prev, next *entry
}

// Check looks for an order that explains ops. If there is none, the error shows the longest
// order that was found and the commands that cannot follow it.
func Check(ops []Op) error {
	var all []*entry
	must := 0
	for i := range ops {
		o := &ops[i]
		if o.Return < o.Call {
			return fmt.Errorf("history: %v ends before it begins", o)
		}
		call := &entry{op: i, at: o.Call, end: &entry{op: i, at: o.Return}}
		all = append(all, call)
		if o.Return != Pending {
			must++
			all = append(all, call.end)
		}
	}
	// At the same moment beginnings come first: those commands overlap.
	slices.SortStableFunc(all, func(a, b *entry) int {
		begins := func(e *entry) int { return map[bool]int{true: 0, false: 1}[e.end != nil] }
		return cmp.Or(cmp.Compare(a.at, b.at), begins(a)-begins(b))
	})
	head := &entry{op: -1}
	last := head
	for _, e := range all {
		last.next, e.prev = e, last
		last = e
	}
	return search(ops, head, must)
}

func search(ops []Op, head *entry, must int) error {
	type state struct{ set, queue uint64 }
	rng := rand.New(rand.NewPCG(1, 2))
	mark := make([]uint64, len(ops))
	for i := range mark {
		mark[i] = rng.Uint64()
	}
	q := newQueue()
	seen := make(map[state]bool)
	var done []*entry
	var best []int
	set := uint64(0)
	e := head.next
	for steps := 0; must > 0; steps++ {
		if steps == stepMax {
			return ErrUndecided
		}
		if e != nil && e.end != nil {
			o := &ops[e.op]
			if q.apply(o) {
				if at := (state{set ^ mark[e.op], q.hash}); !seen[at] {
					seen[at] = true
					set ^= mark[e.op]
					done = append(done, e)
					e.lift()
					if o.Return != Pending {
						must--
					}
					e = head.next
					continue
				}
				q.undo()
			}
			e = e.next
			continue
		}
		// An end: its command must come before all commands that are left.
		if len(done) > len(best) {
			best = best[:0]
			for _, d := range done {
				best = append(best, d.op)
			}
		}
		if len(done) == 0 {
			return fmt.Errorf("no order fits.\n%s", explain(ops, best))
		}
		d := done[len(done)-1]
		done = done[:len(done)-1]
		set ^= mark[d.op]
		if ops[d.op].Return != Pending {
			must++
		}
		q.undo()
		d.unlift()
		e = d.next
	}
	return nil
}

func (e *entry) lift() {
	e.prev.next = e.next
	if e.next != nil {
		e.next.prev = e.prev
	}
	if x := e.end; x.prev != nil {
		x.prev.next = x.next
		if x.next != nil {
			x.next.prev = x.prev
		}
	}
}

func (e *entry) unlift() {
	if x := e.end; x.prev != nil {
		x.prev.next = x
		if x.next != nil {
			x.next.prev = x
		}
	}
	e.prev.next = e
	if e.next != nil {
		e.next.prev = e
	}
}

// explain shows the end of the longest order that was found, and the commands that
// could not follow it.
func explain(ops []Op, order []int) string {
	var b strings.Builder
	in := make([]bool, len(ops))
	for _, i := range order {
		in[i] = true
	}
	fmt.Fprintf(&b, "%d of %d commands fit, the last of them:\n", len(order), len(ops))
	for _, i := range order[max(0, len(order)-30):] {
		fmt.Fprintf(&b, "  %v\n", &ops[i])
	}
	var left []int
	for i := range ops {
		if !in[i] {
			left = append(left, i)
		}
	}
	slices.SortFunc(left, func(i, j int) int { return cmp.Compare(ops[i].Return, ops[j].Return) })
	fmt.Fprintf(&b, "none of these can be next:\n")
	for _, i := range left[:min(len(left), 20)] {
		fmt.Fprintf(&b, "  %v\n", &ops[i])
	}
	return b.String()
}

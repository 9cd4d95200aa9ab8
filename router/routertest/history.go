package routertest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is the kind of an Op of a history.
type Kind uint8

// The commands, and events without a command. The comments list the fields in use.
const (
	Put       Kind = iota + 1 // Job, Tube, Pri, Delayed
	Reserve                   // Watch; Job: zero if the reply was that there is none
	Delete                    // Job, Found
	Release                   // Job, Pri, Found
	Bury                      // Job, Pri, Found
	KickJob                   // Job, Found
	Pause                     // Tube
	Unpause                   // Tube
	DelayEnds                 // Job; nothing happens if it is not delayed
	HoldEnds                  // Job, Client; nothing happens if the client does not hold the job
)

var kindNames = [...]string{"", "put", "reserve", "delete", "release", "bury", "kick-job", "pause", "unpause", "delay ends", "hold ends"}

// Pending is the Return of an Op without a reply.
const Pending = math.MaxInt64

// An Op is one command and its reply. Call and Return are times in any unit. If an Op
// returned before another was called, it took effect before the other.
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

// ErrUndecided is returned when a search took too long.
var ErrUndecided = errors.New("history: too many orders to try")

const searchMax = 10 * time.Second

// CheckHistory returns an error if a history of commands is not linearizable; the commands may
// overlap in time. It searches for an order in which each command takes effect at one moment between
// its call and its return, and a single queue gives every reply. If there is none, the error shows
// the longest order that was found and the commands that cannot follow it.
func CheckHistory(ops []Op) error {
	list := make([]porcupine.Operation, len(ops))
	for i := range ops {
		o := &ops[i]
		if o.Return < o.Call {
			return fmt.Errorf("history: %v ends before it begins", o)
		}
		list[i] = porcupine.Operation{Input: o, Call: o.Call, Return: o.Return}
	}
	result, info := porcupine.CheckOperationsVerbose(model, list, searchMax)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return ErrUndecided
	}
	var best []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(best) {
			best = order
		}
	}
	return explain(ops, best)
}

// explain shows the end of the longest order that was found, and the commands that
// could not follow it.
func explain(ops []Op, order []porcupine.Operation) error {
	var b strings.Builder
	in := make(map[*Op]bool)
	fmt.Fprintf(&b, "no order fits.\n%d of %d commands fit, the last of them:\n", len(order), len(ops))
	for i, one := range order {
		o := one.Input.(*Op)
		in[o] = true
		if i >= len(order)-30 {
			fmt.Fprintf(&b, "  %v\n", o)
		}
	}
	var left []*Op
	for i := range ops {
		if !in[&ops[i]] {
			left = append(left, &ops[i])
		}
	}
	slices.SortFunc(left, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	fmt.Fprintf(&b, "none of these can be next:\n")
	for _, o := range left[:min(len(left), 20)] {
		fmt.Fprintf(&b, "  %v\n", o)
	}
	return errors.New(b.String())
}

type whereabouts uint8

const (
	ready whereabouts = iota
	delayed
	reserved
	buried
)

// A job is a job in the model queue.
type job struct {
	id     uint64
	pri    uint32
	tube   int
	in     whereabouts
	client int // its holder
}

// A queue is a state of the model, with all tubes. It is immutable.
type queue struct {
	jobs   []job // by id
	paused []int // tubes, sorted
}

var model = porcupine.Model{
	Init: func() any { return new(queue) },
	Step: func(q, input, _ any) (bool, any) {
		o := input.(*Op)
		next, ok := q.(*queue).apply(o)
		if !ok && o.Return == Pending { // it has no effect
			return true, q
		}
		return ok, next
	},
	Equal: func(a, b any) bool {
		x, y := a.(*queue), b.(*queue)
		return x == y || slices.Equal(x.jobs, y.jobs) && slices.Equal(x.paused, y.paused)
	},
}

func (q *queue) find(id uint64) (i int, found bool) {
	return slices.BinarySearchFunc(q.jobs, id, func(j job, id uint64) int { return cmp.Compare(j.id, id) })
}

// best returns the index of the job that a reserve gets, or -1.
func (q *queue) best(watch []bool) int {
	best := -1
	for i, j := range q.jobs {
		if j.in == ready && watch[j.tube] && (best < 0 || j.pri < q.jobs[best].pri) && !slices.Contains(q.paused, j.tube) {
			best = i
		}
	}
	return best
}

// apply returns the queue after o, and whether o's reply is right.
func (q *queue) apply(o *Op) (*queue, bool) {
	i, there := q.find(o.Job)
	var j job
	if there {
		j = q.jobs[i]
	}
	mine := there && j.in == reserved && j.client == o.Client
	// move returns the queue with the job in another state. may must be equal to o.Found.
	move := func(may bool, in whereabouts, pri uint32) (*queue, bool) {
		if may && may == o.Found {
			return q.with(i, job{j.id, pri, j.tube, in, 0}), true
		}
		return q, may == o.Found
	}
	switch o.Kind {
	case Put:
		in := ready
		if o.Delayed {
			in = delayed
		}
		return &queue{slices.Insert(slices.Clone(q.jobs), i, job{o.Job, o.Pri, o.Tube, in, 0}), q.paused}, !there
	case Reserve:
		b := q.best(o.Watch)
		if o.Job == 0 || b < 0 {
			return q, o.Job == 0 && b < 0
		}
		return q.with(i, job{o.Job, j.pri, j.tube, reserved, o.Client}), there && b == i
	case Delete:
		if may := mine || there && j.in != reserved; !may || !o.Found {
			return q, may == o.Found
		}
		return &queue{slices.Delete(slices.Clone(q.jobs), i, i+1), q.paused}, true
	case Release:
		return move(mine, ready, o.Pri)
	case Bury:
		return move(mine, buried, o.Pri)
	case KickJob:
		return move(there && (j.in == delayed || j.in == buried), ready, j.pri)
	case DelayEnds, HoldEnds:
		if o.Kind == HoldEnds && mine || o.Kind == DelayEnds && there && j.in == delayed {
			return q.with(i, job{j.id, j.pri, j.tube, ready, 0}), true
		}
		return q, true
	}
	paused := slices.DeleteFunc(slices.Clone(q.paused), func(tube int) bool { return tube == o.Tube })
	if o.Kind == Pause {
		paused = append(paused, o.Tube)
		slices.Sort(paused)
	}
	return &queue{q.jobs, paused}, true
}

// with returns the queue with another job at index i.
func (q *queue) with(i int, j job) *queue {
	if i == len(q.jobs) {
		return q
	}
	jobs := slices.Clone(q.jobs)
	jobs[i] = j
	return &queue{jobs, q.paused}
}

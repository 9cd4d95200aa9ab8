package sim

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"polystalk/router/admin"
	"polystalk/router/direct"
)

// An operator reads and changes a world's server while clients work, by the operations of package
// admin and by direct visits. Each task runs visit by visit: between two visits, and while another
// owner has the shard, other tasks and clients continue. The world's seed determines the order.
type operator struct {
	Admin *admin.Operator

	w     *world
	tasks []*task
	runs  *task // the running task
	err   error // the first error of a task
}

// A task is a function that yields between visits.
type task struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// errStopped unwinds a task when its world ends.
var errStopped = errors.New("sim: the world has ended")

// newOperator adds an operator to a world that has none.
func (w *world) newOperator() *operator {
	o := &operator{w: w}
	o.Admin = w.D.NewOperator(o.turn)
	w.operator = o
	return o
}

// Begin begins a task with its own caller. If f returns an error, the world's history fails.
func (o *operator) Begin(f func(c *direct.Caller) error) {
	t := new(task)
	t.next, t.stop = iter.Pull(iter.Seq[struct{}](func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			if r := recover(); r != nil && r != errStopped {
				panic(r)
			}
		}()
		if err := f(o.w.D.NewCaller(o.turn)); err != nil && o.err == nil {
			o.err = err
		}
	}))
	o.tasks = append(o.tasks, t)
}

// turn yields to others. The running task calls it.
func (o *operator) turn() {
	t := o.runs
	if !t.yield(struct{}{}) {
		panic(errStopped)
	}
}

// busy returns the number of unfinished tasks.
func (o *operator) busy() int { return len(o.tasks) }

// goOn runs a task until it yields.
func (o *operator) goOn(i int) {
	t := o.tasks[i]
	o.runs = t
	_, more := t.next()
	o.runs = nil
	if !more {
		o.tasks = slices.Delete(o.tasks, i, i+1)
	}
}

// end stops all tasks.
func (o *operator) end() {
	for _, t := range o.tasks {
		t.stop()
	}
	o.tasks = nil
}

// fault returns the reason why the machine is down, or the error of a task.
func (w *world) fault() error {
	if w.down != nil {
		return w.down
	}
	if w.operator == nil || w.operator.err == nil {
		return nil
	}
	return fmt.Errorf("operator: %w", w.operator.err)
}

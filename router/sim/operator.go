package sim

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"polystalk/router/admin"
	"polystalk/router/direct"
)

// An operator looks at a world's server and acts on it beside the clients: what package
// admin does for operators, and direct's visits themselves. Each task runs visit by visit;
// between two visits, and while a shard is owned by somebody else, everybody else goes on.
// The order follows from the world's seed.
type operator struct {
	Admin *admin.Operator

	w     *world
	tasks []*task
	runs  *task // the one that runs now
	err   error // the first that a task has ended with
}

// A task is a function that gives way now and then.
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

// Begin begins a task, with a caller of its own. An error of it ends the world's history.
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

// turn lets others go on. It is for the task that runs.
func (o *operator) turn() {
	t := o.runs
	if !t.yield(struct{}{}) {
		panic(errStopped)
	}
}

// busy is how many tasks are under way.
func (o *operator) busy() int { return len(o.tasks) }

// goOn has a task go on until it gives way again.
func (o *operator) goOn(i int) {
	t := o.tasks[i]
	o.runs = t
	_, more := t.next()
	o.runs = nil
	if !more {
		o.tasks = slices.Delete(o.tasks, i, i+1)
	}
}

// end stops all tasks where they are.
func (o *operator) end() {
	for _, t := range o.tasks {
		t.stop()
	}
	o.tasks = nil
}

// fault is the error of a task.
func (w *world) fault() error {
	if w.down != nil {
		return w.down
	}
	if w.operator == nil || w.operator.err == nil {
		return nil
	}
	return fmt.Errorf("operator: %w", w.operator.err)
}

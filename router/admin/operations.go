package admin

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	wire "polystalk/codec/admin"
)

const (
	// operationsWait is the number of operations that may wait while one runs.
	operationsWait = 16
	// operationsKept is the number of operations of each role in the list, also ended ones.
	operationsKept = 100
)

// An Asked is a Bulk and its request.
type Asked struct {
	Bulk    Bulk
	Name    string             // of the token
	Role    string             // the token's
	Request string             // its id
	As      *wire.NewOperation // without the ids, since there may be many
	IDs     int                // number of ids
	Detail  string             // for the audit
}

// An Operation is a Bulk that waits, runs or has ended. Any goroutine may call its methods at
// any time.
type Operation struct {
	Asked
	ID    uint64
	Began time.Time
	Progress

	cancel  context.CancelCauseFunc
	started chan struct{} // closed when it starts to run
	done    chan struct{} // closed when it has ended; the next two fields are set before
	err     error
	ended   time.Time
}

// Done returns a channel that is closed when the operation has ended.
func (op *Operation) Done() <-chan struct{} { return op.done }

// Cancel ends the operation as soon as possible, with why as its problem.
func (op *Operation) Cancel(why string) { op.cancel(wire.Cancelled.Problem(why)) }

// State returns waiting, running, done, cancelled or failed. After the end, it also returns the
// time of the end, and the problem.
func (op *Operation) State() (state string, ended time.Time, err error) {
	switch {
	case !isClosed(op.done) && !isClosed(op.started):
		return "waiting", time.Time{}, nil
	case !isClosed(op.done):
		return "running", time.Time{}, nil
	case op.err == nil:
		return "done", op.ended, nil
	case wire.Cancelled.Is(op.err):
		return "cancelled", op.ended, op.err
	}
	return "failed", op.ended, op.err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Operations has the operations of a server, and runs one at a time. Any goroutine may call its
// methods at any time.
type Operations struct {
	o    *Operator
	turn chan struct{} // has an entry while one runs

	mu   sync.Mutex
	list []*Operation // oldest first
	last uint64
}

// NewOperations makes an empty list.
func NewOperations(o *Operator) *Operations {
	return &Operations{o: o, turn: make(chan struct{}, 1)}
}

// Begin begins an operation: spawn calls a function in a goroutine, which ends with the operation.
// The end of ctx cancels the operation. The error is Busy if too many operations wait. If the role has too many operations, the oldest
// ended one of this role is removed: a role must not hide the operations of another role.
func (l *Operations) Begin(ctx context.Context, asked Asked, spawn func(func())) (*Operation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	under, ofRole, oldest := 0, 0, -1
	for i, op := range l.list {
		same := op.Role == asked.Role
		if same {
			ofRole++
		}
		if !isClosed(op.done) {
			under++
		} else if same && oldest < 0 {
			oldest = i
		}
	}
	if under > operationsWait {
		return nil, wire.Busy.Problem("too many operations wait")
	}
	if ofRole >= operationsKept { // some have ended, since at most operationsWait wait
		l.list = slices.Delete(l.list, oldest, oldest+1)
	}
	l.last++
	op := &Operation{ID: l.last, Asked: asked, Began: time.Now(), started: make(chan struct{}), done: make(chan struct{})}
	ctx, op.cancel = context.WithCancelCause(ctx)
	l.list = append(l.list, op)
	spawn(func() {
		defer op.cancel(nil)
		op.err = l.run(ctx, op)
		op.ended = time.Now()
		op.Bulk.IDs = nil // free the memory: the operation stays in the list
		close(op.done)
	})
	return op, nil
}

// run runs op in its turn. A panic of op is logged, and becomes its problem.
func (l *Operations) run(ctx context.Context, op *Operation) (err error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		err = stopped(ctx)
		l.o.countBulk(&op.Bulk, &op.Progress, err)
		return err
	}
	defer func() { <-l.turn }()
	defer func() {
		if v := recover(); v != nil {
			l.o.opts.Host.Log.Error("an operation panicked", "operation", op.ID, "request", op.Request, "panic", fmt.Sprintf("%v\n%s", v, debug.Stack()))
			err = wire.Failed.Problem("")
			l.o.countBulk(&op.Bulk, &op.Progress, err)
		}
	}()
	close(op.started)
	return l.o.RunBulk(ctx, &op.Bulk, &op.Progress)
}

// List returns all operations, newest first.
func (l *Operations) List() []*Operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.list)
	slices.Reverse(all)
	return all
}

// Find returns the operation with an id, or nil.
func (l *Operations) Find(id uint64) *Operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.list, func(op *Operation) bool { return op.ID == id }); i >= 0 {
		return l.list[i]
	}
	return nil
}

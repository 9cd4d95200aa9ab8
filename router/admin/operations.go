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
	// operationsWait operations may wait while one runs.
	operationsWait = 16
	// operationsKept operations of each role are remembered, those that are over among them.
	operationsKept = 100
)

// An Asked is a Bulk, and who has asked for it, by which request and how.
type Asked struct {
	Bulk    Bulk
	Name    string             // of the token
	Role    string             // the token's
	Request string             // its id
	As      *wire.NewOperation // without the ids, of which there may be many
	IDs     int                // how many those are
	Detail  string             // for the audit
}

// An Operation is a Bulk that waits, runs or is over. It may be asked by anyone at any time.
type Operation struct {
	Asked
	ID    uint64
	Began time.Time
	Progress

	cancel  context.CancelCauseFunc
	started chan struct{} // closed when its turn came
	done    chan struct{} // closed when it is over; the next three are set then
	err     error
	ended   time.Time
	crash   string // where it has made the server fail; empty: it has not

	last  sync.Mutex // guards atEnd
	atEnd []func()   // to be called when it is over
}

// AtEnd has f called once it is over, before the server can end; at once if it is.
func (op *Operation) AtEnd(f func()) {
	op.last.Lock()
	defer op.last.Unlock()
	if op.over() {
		f()
		return
	}
	op.atEnd = append(op.atEnd, f)
}

// end notes that it is over.
func (op *Operation) end(err error) {
	op.last.Lock()
	defer op.last.Unlock()
	op.err, op.ended = err, time.Now()
	op.Bulk.IDs = nil // as long as it is remembered
	close(op.done)
	for _, f := range op.atEnd {
		f()
	}
	op.atEnd = nil
}

// Done is closed when it is over.
func (op *Operation) Done() <-chan struct{} { return op.done }

// Cancel ends it as soon as may be; why is what it says of that.
func (op *Operation) Cancel(why string) { op.cancel(wire.Cancelled.Problem(why)) }

// State is waiting, running, done, cancelled or failed; when it is over, also when that was,
// and why it has not done all.
func (op *Operation) State() (state string, ended time.Time, err error) {
	select {
	case <-op.done:
	default:
		select {
		case <-op.started:
			return "running", time.Time{}, nil
		default:
			return "waiting", time.Time{}, nil
		}
	}
	switch p, ok := op.err.(*wire.Problem); {
	case op.err == nil:
		return "done", op.ended, nil
	case ok && p.Type == wire.ProblemPath+wire.Cancelled.Slug:
		return "cancelled", op.ended, op.err
	}
	return "failed", op.ended, op.err
}

// Crash says where an operation that is over has made the server fail; empty: it has not.
func (op *Operation) Crash() string { return op.crash }

// Operations are those of a server, of which one runs at a time. It may be used by anyone at
// any time.
type Operations struct {
	o    *Operator
	turn chan struct{} // has an entry while one runs

	mu   sync.Mutex
	list []*Operation // the oldest first
	last uint64
}

// NewOperations makes an empty list.
func NewOperations(o *Operator) *Operations {
	return &Operations{o: o, turn: make(chan struct{}, 1)}
}

// Begin begins an operation, which ctx ends. It calls ended when the operation is over. The error is
// Busy if too many operations wait. The oldest operation of the same role is forgotten if the role
// has too many: one role must not hide what another one did.
func (l *Operations) Begin(ctx context.Context, asked Asked, ended func()) (*Operation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	under, ofRole, oldest := 0, 0, -1
	for i, op := range l.list {
		same := op.Role == asked.Role
		if same {
			ofRole++
		}
		if !op.over() {
			under++
		} else if same && oldest < 0 {
			oldest = i
		}
	}
	if under > operationsWait {
		return nil, wire.Busy.Problem("as many operations wait as may")
	}
	if ofRole >= operationsKept { // some are over, since at most operationsWait wait
		l.list = slices.Delete(l.list, oldest, oldest+1)
	}
	l.last++
	op := &Operation{ID: l.last, Asked: asked, Began: time.Now(), started: make(chan struct{}), done: make(chan struct{})}
	ctx, op.cancel = context.WithCancelCause(ctx)
	l.list = append(l.list, op)
	go func() {
		defer ended()
		defer op.cancel(nil)
		op.end(l.run(ctx, op))
	}()
	return op, nil
}

func (op *Operation) over() bool {
	select {
	case <-op.done:
		return true
	default:
		return false
	}
}

// run runs op when its turn comes. Should that make the server fail, others go on.
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
			op.crash = fmt.Sprintf("%v\n%s", v, debug.Stack())
			err = wire.Failed.Problem("")
			l.o.countBulk(&op.Bulk, &op.Progress, err)
		}
	}()
	close(op.started)
	return l.o.RunBulk(ctx, &op.Bulk, &op.Progress)
}

// List is all that are remembered, the newest first.
func (l *Operations) List() []*Operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*Operation, 0, len(l.list))
	for i := len(l.list) - 1; i >= 0; i-- {
		all = append(all, l.list[i])
	}
	return all
}

// Find finds one by its id; nil: it is not remembered.
func (l *Operations) Find(id uint64) *Operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range l.list {
		if op.ID == id {
			return op
		}
	}
	return nil
}

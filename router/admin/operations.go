package admin

import (
	"context"
	"sync"
	"time"

	wire "polystalk/codec/admin"
)

const (
	// operationsWait operations may wait while one runs.
	operationsWait = 16
	// operationsKept operations are remembered, those that are over among them.
	operationsKept = 100
)

// An Operation is a Bulk that waits, runs or is over. It may be asked by anyone at any time.
type Operation struct {
	ID      uint64
	Bulk    Bulk
	Name    string // of who has begun it
	Request string // its id
	Began   time.Time
	Progress

	cancel  context.CancelFunc
	started chan struct{} // closed when its turn came
	done    chan struct{} // closed when it is over; err and ended are set then
	err     error
	ended   time.Time
}

// Done is closed when it is over.
func (op *Operation) Done() <-chan struct{} { return op.done }

// Cancel ends it as soon as may be.
func (op *Operation) Cancel() { op.cancel() }

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

// Begin begins an operation, which ctx ends. ended is called when it is over. Too many that
// wait already are Busy.
func (l *Operations) Begin(ctx context.Context, b Bulk, name, request string, ended func()) (*Operation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	under := 0
	for _, op := range l.list {
		if !op.over() {
			under++
		}
	}
	if under > operationsWait {
		return nil, wire.Busy.Problem("as many operations wait as may")
	}
	if len(l.list) >= operationsKept {
		for i, op := range l.list {
			if op.over() {
				l.list = append(l.list[:i:i], l.list[i+1:]...)
				break
			}
		}
	}
	l.last++
	op := &Operation{ID: l.last, Bulk: b, Name: name, Request: request, Began: time.Now(), started: make(chan struct{}), done: make(chan struct{})}
	ctx, op.cancel = context.WithCancel(ctx)
	l.list = append(l.list, op)
	go func() {
		defer ended()
		defer op.cancel()
		op.err = l.run(ctx, op)
		op.ended = time.Now()
		close(op.done)
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

// run runs op when its turn comes.
func (l *Operations) run(ctx context.Context, op *Operation) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return wire.Cancelled.Problem("")
	}
	defer func() { <-l.turn }()
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

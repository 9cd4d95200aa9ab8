package cluster

import "sync"

// A queue passes values from several goroutines to one, which takes all queued values at once.
type queue[T any] struct {
	mu     sync.Mutex
	filled sync.Cond // there are values, or it is closed
	taken  sync.Cond // there is space, or it is closed
	list   []T
	most   int // values beyond which put waits; zero: no limit
	closed bool
	wake   chan struct{} // signaled by put, for a reader that waits for other things too; may be nil
}

func newQueue[T any](most int, wake chan struct{}) *queue[T] {
	q := &queue[T]{most: most, wake: wake}
	q.filled.L, q.taken.L = &q.mu, &q.mu
	return q
}

// put adds values in order, and waits while the queue is full. It drops them if it is closed.
func (q *queue[T]) put(things ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.most > 0 && len(q.list) >= q.most && !q.closed {
		q.taken.Wait()
	}
	q.add(things)
}

// push adds a value and never waits.
func (q *queue[T]) push(thing T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add([]T{thing})
}

// add adds values. mu is held.
func (q *queue[T]) add(things []T) {
	if q.closed || len(things) == 0 {
		return
	}
	q.list = append(q.list, things...)
	q.filled.Signal()
	if q.wake != nil {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// take returns all queued values, which may be none.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeAll()
}

func (q *queue[T]) takeAll() []T {
	list := q.list
	q.list = nil
	q.taken.Broadcast()
	return list
}

// wait waits for values and returns all. It reports false if the queue is closed.
func (q *queue[T]) wait() ([]T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.closed {
		q.filled.Wait()
	}
	return q.takeAll(), !q.closed
}

// close ends all waiting, and drops queued values.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
	q.taken.Broadcast()
}

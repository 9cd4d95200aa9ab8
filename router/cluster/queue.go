package cluster

import "sync"

// A queue passes values from several goroutines to one, which takes all queued values at once.
type queue[T any] struct {
	mu      sync.Mutex
	changed sync.Cond // values were added or taken, or it is closed
	list    []T
	closed  bool
	filled  chan struct{} // one element after put or poke, for a reader that waits for other things too
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{filled: make(chan struct{}, 1)}
	q.changed.L = &q.mu
	return q
}

// put adds values in order, and never waits. It drops them if the queue is closed.
func (q *queue[T]) put(things ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(things) == 0 {
		return
	}
	q.list = append(q.list, things...)
	q.changed.Broadcast()
	q.poke()
}

// poke wakes the reader of filled.
func (q *queue[T]) poke() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// awaitRoom waits until fewer than most values are queued, or the queue is closed.
func (q *queue[T]) awaitRoom(most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) >= most && !q.closed {
		q.changed.Wait()
	}
}

// take returns all queued values, which may be none.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	q.changed.Broadcast()
	return list
}

// wait waits for values and returns all. It reports false if the queue is closed.
func (q *queue[T]) wait() ([]T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.closed {
		q.changed.Wait()
	}
	list := q.list
	q.list = nil
	return list, !q.closed
}

// close ends all waiting, and drops queued values.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

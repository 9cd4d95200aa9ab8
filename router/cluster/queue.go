package cluster

import "sync"

// A queue hands things from some goroutines to one, which takes all that wait at once.
type queue[T any] struct {
	mu     sync.Mutex
	filled sync.Cond // there is something, or it is closed
	taken  sync.Cond // there is room again, or it is closed
	list   []T
	most   int // put waits while so many wait; zero: never
	closed bool
	wake   chan struct{} // told of what is put, for who waits for other things too; may be nil
}

func newQueue[T any](most int, wake chan struct{}) *queue[T] {
	q := &queue[T]{most: most, wake: wake}
	q.filled.L, q.taken.L = &q.mu, &q.mu
	return q
}

// put adds things, in their order. To a closed queue nothing is added.
func (q *queue[T]) put(things ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.most > 0 && len(q.list) >= q.most && !q.closed {
		q.taken.Wait()
	}
	q.add(things)
}

// push adds one, and never waits.
func (q *queue[T]) push(thing T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add([]T{thing})
}

// add adds things; mu is held.
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

// take gives all there is, which may be nothing.
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

// wait gives all there is as soon as there is something; false: the queue is closed.
func (q *queue[T]) wait() ([]T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.closed {
		q.filled.Wait()
	}
	return q.takeAll(), !q.closed
}

// close ends all waiting. What is in it is for nobody.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
	q.taken.Broadcast()
}

package session

// A fifo is a queue. Its zero value is empty.
type fifo[T any] struct {
	list []T
	at   int // the first in it
}

func (q *fifo[T]) len() int { return len(q.list) - q.at }

func (q *fifo[T]) push(v T) {
	if q.at > 0 && len(q.list) == cap(q.list) && q.at >= len(q.list)/2 {
		// Rather than to grow: the front is free.
		n := copy(q.list, q.list[q.at:])
		clear(q.list[n:])
		q.list, q.at = q.list[:n], 0
	}
	q.list = append(q.list, v)
}

// first is the first one; there must be one.
func (q *fifo[T]) first() T { return q.list[q.at] }

// pop takes the first one; there must be one.
func (q *fifo[T]) pop() T {
	var none T
	v := q.list[q.at]
	q.list[q.at] = none
	if q.at++; q.at == len(q.list) {
		q.list, q.at = q.list[:0], 0
		if cap(q.list) > fifoKeep {
			q.list = nil
		}
	}
	return v
}

// fifoKeep places are kept while the queue is empty.
const fifoKeep = 4096

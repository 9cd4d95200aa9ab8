package session

// A SendQueue is output that a socket did not take, in order. What may change is copied
// into blocks of the queue's own, what never changes stays as it is. The account is told
// of all of it. Its zero value with an Account is empty. Not safe for concurrent use.
type SendQueue struct {
	Account *Account
	parts   []sendPart // from first on
	first   int
	tail    []byte // the newest block, as far as it is used
	front   int    // bytes of the block in which the queue begins
	bytes   int    // unsent
}

// A sendPart is one piece of a SendQueue.
type sendPart struct {
	p     []byte
	whole []byte // a piece that never changes, all of it; nil: it is in a block
	opens int    // bytes of the block that begins with it
}

const (
	// blockMin and blockMax bound the memory for copied bytes, so that many small
	// replies share a block, and one small reply takes little.
	blockMin = 4 << 10
	blockMax = 64 << 10
)

// Add puts p at the end: a copy of it, unless it never changes.
func (q *SendQueue) Add(p []byte, stable bool) {
	if len(p) == 0 {
		return
	}
	old := q.bytes
	q.bytes += len(p)
	if stable {
		q.Account.Retain(p, false)
		q.Account.Add(partCost)
		q.parts = append(q.parts, sendPart{p: p, whole: p})
		return
	}
	for len(p) > 0 {
		opens := 0
		if len(q.tail) == cap(q.tail) {
			q.tail = make([]byte, 0, max(min(old, blockMax), blockMin, len(p)))
			opens = cap(q.tail)
			q.Account.Add(opens)
		}
		n := min(len(p), cap(q.tail)-len(q.tail))
		at := len(q.tail)
		q.tail = append(q.tail, p[:n]...)
		p = p[n:]
		if last := len(q.parts) - 1; opens == 0 && last >= q.first && q.parts[last].whole == nil {
			b := &q.parts[last].p
			*b = (*b)[:len(*b)+n]
			continue
		}
		q.parts = append(q.parts, sendPart{p: q.tail[at:], opens: opens})
	}
}

// Peek appends the next parts to dst: some, and most bytes or a little more. They
// stay good until they are said to be sent.
func (q *SendQueue) Peek(dst [][]byte, most int) [][]byte {
	for _, part := range q.parts[q.first:] {
		if most <= 0 || len(dst) == cap(dst) && len(dst) > 0 {
			break
		}
		dst = append(dst, part.p)
		most -= len(part.p)
	}
	return dst
}

// Sent takes the next n bytes off.
func (q *SendQueue) Sent(n int) {
	q.bytes -= n
	for n > 0 {
		part := &q.parts[q.first]
		if part.opens > 0 {
			q.Account.Add(-q.front) // the block before it is done with
			q.front, part.opens = part.opens, 0
		}
		k := min(n, len(part.p))
		part.p = part.p[k:]
		if n -= k; len(part.p) > 0 {
			break
		}
		q.done(part)
	}
	switch {
	case q.first == len(q.parts):
		q.Account.Add(-q.front)
		q.parts, q.first, q.tail, q.front = q.parts[:0], 0, nil, 0
		if cap(q.parts) > 64 {
			q.parts = nil
		}
	case q.first > 64 && q.first > len(q.parts)/2:
		k := copy(q.parts, q.parts[q.first:])
		clear(q.parts[k:])
		q.parts, q.first = q.parts[:k], 0
	}
}

func (q *SendQueue) done(part *sendPart) {
	if part.whole != nil {
		q.Account.Release(part.whole)
		q.Account.Add(-partCost)
	}
	*part = sendPart{}
	q.first++
}

// Drop forgets everything.
func (q *SendQueue) Drop() { q.Sent(q.bytes) }

// Bytes is how many bytes have not been sent.
func (q *SendQueue) Bytes() int { return q.bytes }

package session

// A SendQueue holds output that a socket did not take, in order. It copies bytes that may
// change into blocks, and keeps references to stable bytes. All of it is counted in Account,
// which must be set. Not safe for concurrent use.
type SendQueue struct {
	Account *Account
	parts   []sendPart // from first on
	first   int
	tail    []byte // the used part of the newest block
	front   int    // size of the oldest block
	bytes   int    // unsent
}

// A sendPart is one piece of a SendQueue.
type sendPart struct {
	p     []byte
	whole []byte // the whole stable piece; nil: p is in a block
	opens int    // size of the block that begins with p; zero: none does
}

const (
	// blockMin and blockMax bound the size of a block: many small replies share one, and
	// one small reply takes little memory.
	blockMin = 4 << 10
	blockMax = 64 << 10
)

// Add appends p: a reference if p is stable (never changes), else a copy.
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

// Peek appends the next parts to dst, up to its capacity, until they have most bytes or more.
// They are valid until Sent removes them.
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

// Sent removes the next n bytes.
func (q *SendQueue) Sent(n int) {
	q.bytes -= n
	for n > 0 {
		part := &q.parts[q.first]
		if part.opens > 0 {
			q.Account.Add(-q.front) // the previous block is sent
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

// Drop removes everything.
func (q *SendQueue) Drop() { q.Sent(q.bytes) }

// Bytes returns the number of unsent bytes.
func (q *SendQueue) Bytes() int { return q.bytes }

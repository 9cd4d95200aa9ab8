package core

import (
	"sync/atomic"

	"github.com/valyala/bytebufferpool"
)

// Home takes finished messages back to the event loop they came from.
// Post never blocks; it is called with no shard owned.
type Home interface {
	Post(*Message)
}

// A Message carries one Op to a shard that is busy, and its Reply back. Its
// sender owns it before Push and again once its Home has handed it over;
// between the two it belongs to the shard. A sender has one under way at a
// time, so the queues are bounded by the number of clients.
type Message struct {
	Op    Op
	Reply Reply
	Home  Home
	Owner any // the sender's own: never looked at here
	From  int // the Index of the shard that answered

	// Next links a Home's queue.
	Next atomic.Pointer[Message]

	in, out *bytebufferpool.ByteBuffer
}

// Keep copies the slices of Op into memory of the message, so that they
// outlive the caller's buffer. A Large body stays where it is.
func (m *Message) Keep() {
	n := len(m.Op.Name)
	if n == 0 && len(m.Op.Body) == 0 {
		return
	}
	if m.in == nil {
		// Pooled, because only contended operations need it and bodies vary.
		m.in = bytebufferpool.Get()
	}
	m.in.B = append(m.in.B[:0], m.Op.Name...)
	m.in.B = append(m.in.B, m.Op.Body...)
	m.Op.Body = m.in.B[n:]
	m.Op.Name = m.in.B[:n:n]
}

// KeepBody copies the reply's body out of the core's memory.
func (m *Message) KeepBody() {
	if len(m.Reply.Body) == 0 {
		return
	}
	if m.out == nil {
		m.out = bytebufferpool.Get()
	}
	m.out.B = append(m.out.B[:0], m.Reply.Body...)
	m.Reply.Body = m.out.B
}

// Done gives the message's buffers back once the reply has been used.
func (m *Message) Done() {
	if m.in != nil {
		bytebufferpool.Put(m.in)
		m.in = nil
	}
	if m.out != nil {
		bytebufferpool.Put(m.out)
		m.out = nil
	}
	m.Op.Name, m.Op.Body, m.Op.Large = nil, nil, nil
	m.Reply.Body, m.Reply.Large = nil, nil
}

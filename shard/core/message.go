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

// Mail is what shards have for one session that uses functions, besides answers: what
// workers say about its jobs, and that a job came while it slept. Any shard adds to it
// while owned; the session takes it out when Msg comes to its Home.
type Mail struct {
	Msg    Message // Home and Owner are the session's to set
	head   atomic.Pointer[Relay]
	posted atomic.Bool // Msg is under way
	state  atomic.Uint32
}

// What Mail.state says. The session goes to sleep and wakes up; a shard tells it,
// and once it has heard that it is told nothing more until it wakes up by asking for a
// job, even if it says that it goes to sleep again: its protocol wants it so.
const (
	mailAwake uint32 = iota
	mailAsleep
	mailTold
	mailHeard
)

// RelayKind says what a Relay tells.
type RelayKind uint8

// The kinds of relays. With the last three the job is over.
const (
	RelayData RelayKind = iota + 1
	RelayWarning
	RelayStatus // its body is as the worker sent it
	RelayDone
	RelayFailed // it has no body
	RelayException
)

// Ends reports whether the job is over.
func (k RelayKind) Ends() bool { return k >= RelayDone }

// A Relay is one report about a job for one session that waits for it. Its bytes
// never change, and may be another session's as well.
type Relay struct {
	Job    JobID
	Kind   RelayKind
	Copies uint32 // submissions of the session that wait for the job
	Body   []byte
	Large  Large // instead of Body
	Next   *Relay
}

// Sleep makes the session one that is to be told of a job, once. It reports false
// if it is that already, or has heard of one since it last woke up.
func (m *Mail) Sleep() bool { return m.state.CompareAndSwap(mailAwake, mailAsleep) }

// Wake ends the session's sleep; whether it was told does not matter any more.
func (m *Mail) Wake() {
	if m.state.Load() != mailAwake {
		m.state.Store(mailAwake)
	}
}

// Told reports, once, that a job came while the session slept.
func (m *Mail) Told() bool {
	return m.state.Load() == mailTold && m.state.CompareAndSwap(mailTold, mailHeard)
}

// tell tells a session of a job, which ends what the core takes for its sleep. It reports
// false if it does not sleep, or was told already.
func (m *Mail) tell() bool {
	return m.state.Load() == mailAsleep && m.state.CompareAndSwap(mailAsleep, mailTold)
}

// Take takes the relays out, oldest first: in the order in which each shard added
// them. It is for when Msg has come back; from then on Msg may be posted again.
func (m *Mail) Take() *Relay {
	m.posted.Store(false)
	var first *Relay
	for r := m.head.Swap(nil); r != nil; {
		next := r.Next
		r.Next = first
		first, r = r, next
	}
	return first
}

// UnderWay reports whether Msg has been posted and not yet been taken.
func (m *Mail) UnderWay() bool { return m.posted.Load() }

// Add puts r in, to be taken out when Msg is next delivered. What a shard adds
// stays in order, since it is owned meanwhile.
func (m *Mail) Add(r *Relay) {
	for {
		head := m.head.Load()
		r.Next = head
		if m.head.CompareAndSwap(head, r) {
			return
		}
	}
}

// post has m delivered once the shard is released, unless it is under way.
func (g *submissions) post(m *Mail) {
	if !m.posted.Swap(true) {
		g.mail = append(g.mail, m)
	}
}

// takeMail appends what is to be delivered to dst.
func (g *submissions) takeMail(dst []*Mail) []*Mail {
	dst = append(dst, g.mail...)
	clear(g.mail)
	g.mail = g.mail[:0]
	return dst
}

// HasMail reports whether there is anything for TakeMail.
func (c *Core) HasMail() bool { return c.submissions != nil && len(c.submissions.mail) > 0 }

// TakeMail appends the Mail that has something new, of sessions to which nothing was under
// way, to dst. The caller posts it.
func (c *Core) TakeMail(dst []*Mail) []*Mail {
	if c.submissions == nil {
		return dst
	}
	return c.submissions.takeMail(dst)
}

// Sleepers counts the sleeping workers of a function. Sessions count themselves,
// so that a job that comes while nobody sleeps costs one look.
type Sleepers struct {
	n atomic.Int32
}

// Add counts n more sleepers, or fewer.
func (s *Sleepers) Add(n int32) { s.n.Add(n) }

// Count is how many there are.
func (s *Sleepers) Count() int { return int(s.n.Load()) }

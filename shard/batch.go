package shard

import "polystalk/shard/core"

// An event loop or shard goroutine carries a Batch from shard to shard. It has the time of the
// turn, and the messages to deliver once the shard is released. It is not safe for concurrent use.
type Batch struct {
	Now          core.Time
	Slept, Ahead core.Time // see timer.go of package core
	Home         core.Home // messages for it are left in Local instead of being posted

	// Local holds finished messages for Home, oldest first. The holder takes them out.
	Local []*core.Message

	// Defer holds deliveries back until Deliver is called, so that several visits look like
	// one to the sessions that they wake.
	Defer bool

	// Visits counts how often the caller got a shard, Busy how often it found a shard owned, Sent
	// the messages it left in inboxes, and Helped the messages it ran for others.
	Visits, Busy, Sent, Helped uint64

	mail  []*core.Mail
	out   []*core.Message
	woken []*core.Waiter
}

// FromDay returns the moment at which the time of day is day, by the b.Ahead of now.
func (b *Batch) FromDay(day core.Time) core.Time { return core.DayOf(day, -b.Ahead) }

// Day returns the current time of day.
func (b *Batch) Day() core.Time { return core.DayOf(b.Now, b.Ahead) }

// Deliver posts the collected messages; the caller must own no shard. Release calls it, unless
// Defer is set.
func (b *Batch) Deliver() {
	// Mail goes first: a session that submits gets the effects of its submission before the reply.
	for i, m := range b.mail {
		b.post(&m.Msg)
		b.mail[i] = nil
	}
	b.mail = b.mail[:0]
	for i, w := range b.woken {
		b.post(&w.Msg)
		b.woken[i] = nil
	}
	b.woken = b.woken[:0]
	for i, m := range b.out {
		b.post(m)
		b.out[i] = nil
	}
	b.out = b.out[:0]
}

// post hands m over to its Home.
func (b *Batch) post(m *core.Message) {
	if m.Home == b.Home {
		b.Local = append(b.Local, m)
		return
	}
	m.Home.Post(m)
}

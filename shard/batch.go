package shard

import "polystalk/shard/core"

// A Batch is what one event loop (or shard goroutine) carries from shard to
// shard: the time of its turn, and the messages to deliver once the shard is
// released. Not safe for concurrent use.
type Batch struct {
	Now          core.Time
	Slept, Ahead core.Time // see timer.go of package core
	Home         core.Home // messages for it are left in Local instead of being posted

	// Local holds finished messages of Home itself, oldest first. The
	// holder takes them out.
	Local []*core.Message

	// Defer holds deliveries back until Deliver is called, so that several visits look like
	// one to the sessions that they wake.
	Defer bool

	// Visits counts how often a shard was taken, Busy how often it was found
	// owned, Sent the messages left in inboxes, Helped those run for others.
	Visits, Busy, Sent, Helped uint64

	mail  []*core.Mail
	out   []*core.Message
	woken []*core.Waiter
}

// FromDay is the moment at which the time of day is day, as far as b's owner knows.
func (b *Batch) FromDay(day core.Time) core.Time { return core.DayOf(day, -b.Ahead) }

// Day is the time of day now.
func (b *Batch) Day() core.Time { return core.DayOf(b.Now, b.Ahead) }

// Deliver posts what an owner has collected; no shard may be owned any more.
// Release does it, unless Defer is set.
func (b *Batch) Deliver() {
	// Mail goes first: a session that submits hears of what it woke before the
	// answer.
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

package cluster

import (
	"time"

	"polystalk/shard/wal"
)

// A Hand is a node that is driven step by step, by one goroutine: for who runs whole clusters
// from one seed. After an error nothing of it may be used but its disk.
type Hand struct {
	engine  *engine
	now     func() time.Duration
	appends []*Append
	applies []*Apply
}

// HandOptions are what a Hand begins with, and whom it tells.
type HandOptions struct {
	Machine   Options // Vote and Members are the State's
	State     *State
	Replica   Replica
	Proposals *Proposals // its journal's
	// Acknowledge hears that all up to commit n of a leading replica is committed.
	Acknowledge func(n uint64) error
	Send        func(Message)
	Fetch       func(Fetch)
	Now         func() time.Duration // the clock of Tick
}

// NewHand makes one.
func NewHand(o HandOptions) (*Hand, error) {
	e, err := newEngine(&o.Machine, o.State, o.Replica)
	if err != nil {
		return nil, err
	}
	h := &Hand{engine: e, now: o.Now}
	e.send, e.fetch = o.Send, o.Fetch
	e.use(o.Proposals)
	o.Proposals.attach(o.Acknowledge, func() {}, h.Leased)
	o.Proposals.byHand = true
	return h, h.turn()
}

// Machine is the node's, to look at.
func (h *Hand) Machine() *Machine { return h.engine.machine }

// Leads is the term in which the node leads and its replica too, or zero.
func (h *Hand) Leads() uint64 {
	if t := h.engine.promoted.Load(); t == h.engine.leading.Load() {
		return t
	}
	return 0
}

// Leased reports whether no other node can lead at this moment.
func (h *Hand) Leased() bool { return h.engine.leased(h.now()) }

// turn gathers what is to be done.
func (h *Hand) turn() (err error) {
	h.appends, h.applies, err = h.engine.turn(h.appends, h.applies)
	return err
}

// Tick is Machine.Tick.
func (h *Hand) Tick() error {
	if err := h.engine.tick(h.now()); err != nil {
		return err
	}
	return h.turn()
}

// Receive takes a message from another.
func (h *Hand) Receive(msg Message) error {
	if err := h.engine.receive(msg); err != nil {
		return err
	}
	return h.turn()
}

// Do calls f with the Machine: what operators want of it.
func (h *Hand) Do(f func(*Machine)) error {
	f(h.engine.machine)
	return h.turn()
}

// Propose gives the Machine what the replica has done.
func (h *Hand) Propose() error { return h.turn() }

// Writes is how many Appends wait for the disk, Applies how many pieces for the replica.
func (h *Hand) Writes() int  { return len(h.appends) }
func (h *Hand) Applies() int { return len(h.applies) }

// Write does the first n Appends with one sync. After an error that is wal.IsFull they are
// still to be done, once there is room.
func (h *Hand) Write(n int) error {
	after, err := h.engine.disk.do(h.appends[:n])
	if wal.IsFull(err) {
		return err
	}
	h.appends = h.appends[n:]
	if err != nil {
		return err
	}
	for _, msg := range after {
		if msg.To() != h.engine.self {
			h.engine.send(msg)
		} else if err := h.engine.done(msg); err != nil {
			return err
		}
	}
	return h.turn()
}

// Apply applies the piece that waits longest.
func (h *Hand) Apply() error {
	p := h.applies[0]
	h.applies = h.applies[1:]
	var failed error
	h.engine.applier.change = func(e *Entry, next *Members) {
		if err := h.engine.change(e, next); err != nil {
			failed = err
		}
	}
	if err := h.engine.applier.do(p); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if err := h.engine.done(p.Done()); err != nil {
		return err
	}
	return h.turn()
}

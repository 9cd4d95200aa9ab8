package cluster

import (
	"errors"
	"time"

	"polystalk/shard/wal"
)

// A Stepper is a node that one goroutine drives step by step, so that a simulator runs whole
// clusters from one seed. After an error only its disk may be used.
type Stepper struct {
	engine *engine
	now    func() time.Duration
}

// StepperOptions are a Stepper's parts and callbacks. Of NodeOptions it uses State, Log, Replica,
// Proposals, Acknowledge, Timeout and Fetch.
type StepperOptions struct {
	NodeOptions
	Send func(Message)
	Now  func() time.Duration // the clock of Tick
}

// NewStepper returns a Stepper.
func NewStepper(o StepperOptions) (*Stepper, error) {
	e, err := newEngine(&o.NodeOptions)
	if err != nil {
		return nil, err
	}
	s := &Stepper{engine: e, now: o.Now}
	e.send, e.fetch = o.Send, o.Fetch
	o.Proposals.attach(o.Acknowledge, func() {}, s.Leased)
	o.Proposals.byHand = true
	return s, s.turn(nil)
}

// Machine returns the Machine, for reading.
func (s *Stepper) Machine() *Machine { return s.engine.machine }

// Leads returns the term in which the node and its replica lead, or zero.
func (s *Stepper) Leads() uint64 {
	if t := s.engine.promoted.Load(); t == s.engine.leading.Load() {
		return t
	}
	return 0
}

// Leased reports whether no other node can lead now.
func (s *Stepper) Leased() bool { return s.engine.leased(s.now()) }

// turn collects work after a step that returned an error or nil.
func (s *Stepper) turn(err error) error {
	if err != nil {
		return err
	}
	return s.engine.turn()
}

// Tick is Machine.Tick.
func (s *Stepper) Tick() error { return s.turn(s.engine.tick(s.now())) }

// Receive takes a message from another node.
func (s *Stepper) Receive(msg Message) error { return s.turn(s.engine.receive(msg)) }

// Do calls f with the Machine, for operators' changes.
func (s *Stepper) Do(f func(*Machine)) error {
	f(s.engine.machine)
	return s.turn(nil)
}

// Propose proposes the queued entries of the replica.
func (s *Stepper) Propose() error { return s.turn(nil) }

// Writes returns the number of Appends that wait for the disk, Applies the number of Applys that
// wait for the replica.
func (s *Stepper) Writes() int  { return len(s.engine.appends) }
func (s *Stepper) Applies() int { return len(s.engine.applies) }

// Write does the first n Appends with one sync. If the disk is full (wal.IsFull), they still wait.
func (s *Stepper) Write(n int) error {
	e := s.engine
	after, err := e.disk.do(e.appends[:n])
	if wal.IsFull(err) {
		return err
	}
	e.appends = e.appends[n:]
	for _, msg := range after {
		if msg.To() != e.self {
			e.send(msg)
		} else if err := e.done(msg); err != nil {
			return err
		}
	}
	return s.turn(err)
}

// Apply does the oldest Apply.
func (s *Stepper) Apply() error {
	e := s.engine
	p := e.applies[0]
	e.applies = e.applies[1:]
	var failed error
	e.applier.change = func(entry *Entry, next *Members) { failed = errors.Join(failed, e.change(entry, next)) }
	err := e.applier.do(p)
	if err == nil {
		err = failed
	}
	if err == nil {
		err = e.done(p.Done())
	}
	return s.turn(err)
}

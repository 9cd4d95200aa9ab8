package shard

import (
	"runtime"
	"time"

	"polystalk/shard/core"
)

// nobody is the Home of the shard goroutines, which send no messages.
type nobody struct{}

func (nobody) Post(*core.Message) {}

// Start starts the shard's goroutine. It owns the shard to run timers and the messages that a
// bounded owner has left, and sleeps otherwise.
func (s *Shard) Start() { go s.run() }

// Stop ends the goroutine and waits for it. It does not change the core.
func (s *Shard) Stop() {
	close(s.quit)
	<-s.done
}

// run is the goroutine.
func (s *Shard) run() {
	defer close(s.done)
	b := &Batch{Home: nobody{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-timer.C:
		case <-s.wake:
		}
		s.OwnPatiently(b)
		s.clock(b)
		next := s.tick(b)
		s.rounds.Add(1)
		if s.left.Load() != b.Helped {
			s.left.Store(b.Helped)
		}
		if next == core.Never {
			timer.Stop()
			continue
		}
		timer.Reset(time.Duration(max(0, next-b.Now)))
	}
}

// OwnPatiently waits until it owns the shard. It may sleep, so an event loop must not call it.
func (s *Shard) OwnPatiently(b *Batch) {
	for tries := 0; !s.Own(b); tries++ {
		// The owner does bounded work, but its thread may be preempted: then spinning would
		// only delay it.
		if tries < 16 {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// yield lets the owner of a shard with a full inbox run.
func yield() { runtime.Gosched() }

// tick is one round of the goroutine, which owns the shard: it runs due timers and the inbox, and
// releases the shard. It returns when the next timer is due. If a message of the inbox sets an
// earlier timer, Release nudges the goroutine.
func (s *Shard) tick(b *Batch) (next core.Time) {
	s.expire(b)
	next = s.core.Next()
	s.wakeAt = next
	s.Release(b)
	return next
}

// Tick does one round of the goroutine for a shard that was not started, as in a simulator:
// it runs due timers and the inbox. It reports false if the shard is owned.
func (s *Shard) Tick(b *Batch) bool {
	if !s.Own(b) {
		return false
	}
	select {
	case <-s.wake:
	default:
	}
	s.tick(b)
	return true
}

// Due returns the moment of the next Tick of a shard that was not started: zero if it was nudged,
// Never if nothing is pending.
func (s *Shard) Due() core.Time {
	if len(s.wake) > 0 {
		return 0
	}
	return s.wakeAt
}

// Nudge makes the goroutine run a round soon.
func (s *Shard) Nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

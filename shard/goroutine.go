package shard

import (
	"runtime"
	"time"

	"polystalk/shard/core"
)

// nobody is the Home of the shard goroutines: no message is theirs.
type nobody struct{}

func (nobody) Post(*core.Message) {}

// Start starts the shard's goroutine. It owns the shard for timers and for
// what a bounded owner left over, and sleeps otherwise.
func (s *Shard) Start() { go s.run() }

// Stop ends the goroutine and waits for it. The core is not touched.
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

// OwnPatiently takes the shard, however long it takes. It sleeps if need be: it is for
// goroutines that may wait, never for an event loop.
func (s *Shard) OwnPatiently(b *Batch) {
	for tries := 0; !s.Own(b); tries++ {
		// The owner is in bounded work, unless its thread was preempted: then
		// spinning would only keep it from running.
		if tries < 16 {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// yield lets the owner of a full shard go on.
func yield() { runtime.Gosched() }

// tick is one round of the goroutine for an owner: it runs what is due and what waits in
// the inbox, and releases. It returns when the next timer is due; what came with the inbox
// nudges.
func (s *Shard) tick(b *Batch) (next core.Time) {
	s.expire(b)
	next = s.core.Next()
	s.wakeAt = next
	s.Release(b)
	return next
}

// Tick does one round of the goroutine: it runs the due timers and the inbox.
// It reports false when the shard is owned. For a driver of a shard that was
// not started.
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

// Due is the moment at which the goroutine would call Tick: zero when it was
// nudged, Never when nothing is pending. For a driver of a shard that was not
// started.
func (s *Shard) Due() core.Time {
	if len(s.wake) > 0 {
		return 0
	}
	return s.wakeAt
}

// Nudge makes the goroutine look at the shard soon.
func (s *Shard) Nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

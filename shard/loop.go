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
		s.ownPatiently(b)
		s.clock(b)
		next := s.tick(b)
		s.rounds.Add(1)
		if s.helped.Load() != b.Helped {
			s.helped.Store(b.Helped)
		}
		if next == core.Never {
			timer.Stop()
			continue
		}
		timer.Reset(time.Duration(max(0, next-b.Now)))
	}
}

// ownPatiently takes the shard, however long it takes.
func (s *Shard) ownPatiently(b *Batch) {
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

// pause lets the owner of a full shard go on.
func pause() { runtime.Gosched() }

package router

import (
	"net"
	"time"

	"polystalk/shard"
	"polystalk/shard/core"
)

// ServeGearman is Serve for connections that speak Gearman.
func (s *Server) ServeGearman(l net.Listener) error { return s.serve(l, true) }

// ShutdownWanted delivers once: when a client has sent shutdown, whose OK is on its
// way, or when Retire has seen the last job go. The process should call Shutdown and
// end with status 0.
func (s *Server) ShutdownWanted() <-chan bool { return s.unwanted }

// gracePoll is how often a graceful shutdown looks whether jobs are left.
const gracePoll = 20 * time.Millisecond

// Retire refuses new connections of either protocol from now on and has
// ShutdownWanted deliver when no job waits or runs any more; buried ones do not count.
// Open connections are served on, and may bring new jobs until then; what they bring
// at the very end is refused as by Drain. Source: gearmand's SIGUSR1.
func (s *Server) Retire() {
	s.leave(true)
	s.net.accepting.Wait()
}

// wantShutdown asks for the end: at once, or when no job is left. New connections for
// Gearman are refused from then on; those that there are go on.
func (s *Server) wantShutdown(graceful bool) {
	if s.net == nil {
		return // a Driven ends when its driver says so
	}
	if graceful {
		s.leave(false)
	} else {
		s.sayUnwanted()
	}
}

// strangers is the Home of who never has messages.
type strangers struct{}

func (strangers) Post(*core.Message) {}

// leave closes the listeners for Gearman, or all, and waits for the last job.
func (s *Server) leave(all bool) {
	s.net.refuse(all)
	if s.leaving.Swap(true) {
		return
	}
	go func() {
		b := &shard.Batch{Home: strangers{}}
		for {
			if !s.hasJobs(b) {
				// A job that is acknowledged from here on would be lost with the process.
				s.draining.Store(true)
				if s.pause() {
					return
				}
				if !s.hasJobs(b) {
					s.sayUnwanted()
					return
				}
				// One was on its way. The order of these two is the reverse of Drain's.
				s.draining.Store(false)
				s.draining.CompareAndSwap(false, s.drained.Load())
			}
			if s.pause() {
				return
			}
		}
	}()
}

// pause waits for gracePoll, and reports whether the server has ended meanwhile.
func (s *Server) pause() (ended bool) {
	select {
	case <-s.quit:
		return true
	case <-time.After(gracePoll):
		return false
	}
}

func (s *Server) sayUnwanted() {
	select {
	case s.unwanted <- true:
	default: // said already
	}
}

// hasJobs reports whether any job waits or runs; buried ones are left out.
func (s *Server) hasJobs(b *shard.Batch) bool {
	for _, sh := range s.places.Shards() {
		for !sh.Own(b) {
			time.Sleep(20 * time.Microsecond)
		}
		s.clock.Stamp(b)
		n := sh.Counts()
		sh.Release(b)
		if n.Ready+n.Delayed+n.Reserved > 0 {
			return true
		}
	}
	return false
}

// Gearman is how that is spoken, defaults filled in.
func (s *Server) Gearman() GearmanConfig { return s.cfg.Gearman }

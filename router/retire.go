package router

import (
	"time"

	"polystalk/router/direct"
	"polystalk/router/session"
)

// ShutdownWanted delivers once: when a client has sent shutdown, whose OK is on its way, or
// when Retire has seen the last job go. The process should call Shutdown and end with
// status 0.
func (s *Server) ShutdownWanted() <-chan bool { return s.unwanted }

// Retire refuses new connections of any protocol from now on and has ShutdownWanted deliver
// when no job waits or runs any more; buried ones do not count. Open connections are served
// on, and may bring new jobs until then; what they bring at the very end is refused as by
// Drain. Source: gearmand's SIGUSR1.
func (s *Server) Retire() {
	s.retire(nil)
	s.reactor.AwaitServe()
}

// wantShutdown asks for the end: at once, or when no job is left. New connections of the
// protocol that asks are refused from then on; those that there are go on.
func (s *Server) wantShutdown(graceful bool) {
	switch {
	case s.reactor == nil: // a Driven ends when its driver says so
	case graceful:
		s.retire(s.gearmand)
	default:
		s.sayUnwanted()
	}
}

// retire refuses connections of a protocol, or all, and waits for the last job.
func (s *Server) retire(f session.Front) {
	s.reactor.Refuse(f)
	if !s.retiring.Swap(true) {
		go s.awaitLastJob()
	}
}

func (s *Server) awaitLastJob() {
	caller := direct.New(s.host.Map, s.host.Clock)
	for {
		if !hasJobs(caller) {
			// A job that is acknowledged from here on would be lost with the process.
			s.drain.end(true)
			if s.endsFirst() {
				return
			}
			if !hasJobs(caller) {
				s.sayUnwanted()
				return
			}
			s.drain.end(false) // one was on its way
		}
		if s.endsFirst() {
			return
		}
	}
}

// gracePoll is how often it is looked whether jobs are left.
const gracePoll = 20 * time.Millisecond

// endsFirst waits for gracePoll, and reports whether the server has ended meanwhile.
func (s *Server) endsFirst() (ended bool) {
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
func hasJobs(c *direct.Caller) bool {
	n := c.Counts()
	return n.Ready+n.Delayed+n.Reserved > 0
}

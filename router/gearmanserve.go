package router

import (
	"net"
	"time"

	"polystalk/shard"
)

// ServeGearman is Serve for connections that speak Gearman.
func (s *Server) ServeGearman(l net.Listener) error { return s.serve(l, true) }

// ShutdownWanted delivers once when a client has sent shutdown, whose OK is on its
// way: the process should call Shutdown and end with status 0.
func (s *Server) ShutdownWanted() <-chan bool { return s.unwanted }

// gracePoll is how often a graceful shutdown looks whether jobs are left.
const gracePoll = 20 * time.Millisecond

// wantShutdown asks for the end: at once, or when no job is left. New connections
// are refused from then on; those that there are go on.
func (s *Server) wantShutdown(graceful bool) {
	if s.net == nil {
		return // a Driven ends when its driver says so
	}
	if !graceful {
		s.sayUnwanted()
		return
	}
	s.net.closeGearman()
	go func() {
		b := &shard.Batch{Home: strangers{}}
		for s.hasJobs(b) {
			select {
			case <-s.quit:
				return
			case <-time.After(gracePoll):
			}
		}
		s.sayUnwanted()
	}()
}

func (s *Server) sayUnwanted() {
	select {
	case s.unwanted <- true:
	default: // said already
	}
}

// hasJobs reports whether any job waits or runs; buried ones are left out.
func (s *Server) hasJobs(b *shard.Batch) bool {
	for _, sh := range s.shards {
		for !sh.Own(b) {
			time.Sleep(20 * time.Microsecond)
		}
		b.Now = s.clock()
		n := sh.Counts()
		sh.Release(b)
		if n.Ready+n.Delayed+n.Reserved > 0 {
			return true
		}
	}
	return false
}

// closeGearman closes the listeners for Gearman.
func (n *network) closeGearman() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l, gear := range n.listeners {
		if gear {
			n.refusing = true
			l.Close()
		}
	}
}

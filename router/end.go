package router

import (
	"context"
	"errors"
	"sync"
	"time"

	"polystalk/router/direct"
	"polystalk/router/session"
)

// A drain decides whether new jobs are refused, for one of two independent reasons.
type drain struct {
	host *session.Host // its Draining is kept up to date

	mu     sync.Mutex
	wanted bool // Drain or an operator has requested it
	ending bool // the last job is gone; see awaitLastJob
}

// want makes the server refuse new jobs, or accept them again unless ending is set.
func (d *drain) want(on bool) { d.set(&d.wanted, on) }

func (d *drain) set(reason *bool, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*reason = on
	d.host.Draining.Store(d.wanted || d.ending)
}

// Drain makes every put from now on reply DRAINING, and every submission of a Gearman client
// an ERROR.
func (s *Server) Drain() { s.drain.want(true) }

// ShutdownWanted returns a channel that delivers once: when a client has sent shutdown and gets OK,
// or when no job is left after Retire. The process should call Shutdown and exit with status 0.
func (s *Server) ShutdownWanted() <-chan bool { return s.unwanted }

// Retire refuses new connections of all protocols, and makes ShutdownWanted deliver when no job
// is ready, delayed or reserved; buried jobs do not count. Until then, open connections continue
// and may put new jobs. Source: gearmand's SIGUSR1.
func (s *Server) Retire() {
	s.retire(nil)
	s.reactor.AwaitServe()
}

// wantShutdown runs a client's shutdown command: at once, or, if graceful, when no job is left.
// Graceful shutdown refuses new Gearman connections.
func (s *Server) wantShutdown(graceful bool) {
	switch {
	case s.reactor == nil: // a server from NewUnconnected ignores it
	case graceful:
		s.retire(s.gearmand)
	default:
		s.sayUnwanted()
	}
}

// retire refuses new connections of a protocol, or of all, and waits for the last job.
func (s *Server) retire(f session.Front) {
	s.reactor.Refuse(f)
	if !s.retiring.Swap(true) {
		go s.awaitLastJob()
	}
}

// gracePoll is how often awaitLastJob looks for jobs.
const gracePoll = 20 * time.Millisecond

func (s *Server) awaitLastJob() {
	caller := direct.New(s.host.Map, s.host.Clock)
	ending := false // new jobs are refused, because the process is about to exit
	for {
		left := hasJobs(caller)
		if !left && ending {
			s.sayUnwanted()
			return
		}
		ending = !left // if it was set, a job has arrived before it
		s.drain.set(&s.drain.ending, ending)
		select {
		case <-s.quit:
			return
		case <-time.After(gracePoll):
		}
	}
}

func (s *Server) sayUnwanted() {
	select {
	case s.unwanted <- true:
	default: // delivered already
	}
}

// hasJobs reports whether any job is ready, delayed or reserved.
func hasJobs(c *direct.Caller) bool {
	n := c.Counts()
	return n.Ready+n.Delayed+n.Reserved > 0
}

// Shutdown stops accepting, waits for the replies to received commands until ctx ends, and closes
// all connections and the journal. Without a journal, jobs are lost.
func (s *Server) Shutdown(ctx context.Context) error {
	return errors.Join(s.Stop(ctx), s.Close())
}

// Stop is Shutdown without the last step: Close must follow, to close the journal, which does not
// change any more. A server that has never served clients may be closed without Stop.
func (s *Server) Stop(ctx context.Context) error {
	s.life.Stop()
	err := s.reactor.Shutdown(ctx)
	close(s.quit)
	if s.started {
		for _, sh := range s.host.Map.Shards() {
			sh.Stop()
		}
	}
	return err
}

// Close closes the journal of a stopped server.
func (s *Server) Close() error {
	if s.journal == nil {
		return nil
	}
	if err := s.journal.Close(); err != nil {
		return &JournalError{err}
	}
	return nil
}

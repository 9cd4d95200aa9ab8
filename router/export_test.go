package router

import (
	"polystalk/router/reactor"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// HasJobs is hasJobs.
var HasJobs = hasJobs

// Filled returns c with its defaults.
func (c Config) Filled() Config {
	c.fill("host")
	return c
}

// Reactor returns the event loops.
func (s *Server) Reactor() *reactor.Reactor { return s.reactor }

// FreedBytes returns the size of the large bodies to collect.
func (s *Server) FreedBytes() int64 { return s.freed.bytes.Load() }

// LeadWith makes the server serve with the journal j of a disk, which the caller tends.
func (s *Server) LeadWith(j *commit.Journal, d wal.Disk) error {
	s.cfg.Journal = &Journal{Disk: d}
	f, err := s.follow(s.target().RecoverFrom(j))
	if err != nil {
		return err
	}
	return f.Lead(nil)
}

package router

import (
	"polystalk/router/restore"
	"polystalk/shard/commit"
	"polystalk/shard/journal"
)

// Journal says how jobs are kept across restarts.
type Journal = restore.Config

// journalDescriptors is how many descriptors a journal has at most, with those of its
// directory and the lock.
const journalDescriptors = journal.Descriptors + 2

// A JournalError says that the journal could not be read, or has failed: what
// was not acknowledged may be lost.
type JournalError struct{ Err error }

func (e *JournalError) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e *JournalError) Unwrap() error { return e.Err }

// target is what the journal's jobs come back into.
func (s *Server) target() *restore.Target {
	return &restore.Target{Places: s.places, Clock: s.clock, Log: s.log, Workers: s.cfg.Loops}
}

// Failed delivers the error that ended the journal: nothing more is
// acknowledged, and the process should end. It is nil without a journal.
func (s *Server) Failed() <-chan error { return s.failed }

// wakeLoops has the loops look at what their sessions wait for.
func (s *Server) wakeLoops() {
	// Not under mu: what a loop does next may need it.
	for _, l := range *s.told.Load() {
		l.tell()
	}
}

// binlog is what stats tells about the journal.
func (s *Server) binlog() commit.Stats {
	if s.journal == nil {
		return commit.Stats{}
	}
	return s.journal.Stats()
}

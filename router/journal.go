package router

import "polystalk/router/restore"

// Journal says how jobs are kept across restarts.
type Journal = restore.Config

// A JournalError says that the journal could not be read, or has failed: what was not
// acknowledged may be lost.
type JournalError struct{ Err error }

func (e *JournalError) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e *JournalError) Unwrap() error { return e.Err }

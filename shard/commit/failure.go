package commit

import (
	"errors"

	"polystalk/shard/wal"
)

// ErrStopped is the error of a wait when the storage is being closed. The disk has not failed, so
// it does not end the storage.
var ErrStopped = wal.ErrStopped

// A cause is the reason for the end of a storage. It determines what the process does then.
type cause uint8

// The causes.
const (
	// Disk: a write or a sync has failed. Changes that were not acknowledged may be lost or kept;
	// the next start finds out. The process ends.
	Disk cause = iota
	// Deposed: another server leads. Acknowledged changes are safe, but the shards hold changes
	// that may never be committed, so the process starts again.
	Deposed
)

// A Failure is the error that has ended a storage.
type Failure struct {
	Cause cause
	Err   error
}

// Error returns the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// failureOf returns the Failure that err is or wraps; any other error has the cause Disk.
func failureOf(err error) *Failure {
	f, ok := errors.AsType[*Failure](err)
	switch {
	case !ok:
		return &Failure{Disk, err}
	case error(f) != err:
		return &Failure{f.Cause, err}
	}
	return f
}

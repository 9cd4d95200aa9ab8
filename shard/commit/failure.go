package commit

import "errors"

// A Cause is what has ended a storage. What the process does then depends on it.
type Cause uint8

// The causes.
const (
	// Disk: a write or a sync has failed, or what stands for them. What was not
	// acknowledged may be lost or kept, and whoever starts next finds out. The process ends.
	Disk Cause = iota
	// Deposed: another server leads. Nothing is wrong with what was acknowledged, but the
	// shards hold what may never come to be, so the process begins anew.
	Deposed
)

// A Failure is the error that has ended a storage.
type Failure struct {
	Cause Cause
	Err   error
}

// Error is that of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives Err.
func (f *Failure) Unwrap() error { return f.Err }

// failureOf is the Failure that err is, or has in it; any other error is the disk's.
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

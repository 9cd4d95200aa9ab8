package wal

import (
	"sync"
	"time"

	"polystalk/shard/wal/space"
)

// A report tells the operator how the disk is. What it said last is true, or will be
// corrected.
type report struct {
	*parts

	mu     sync.Mutex
	full   bool      // what was said of the disk
	at     time.Time // when it was
	warned time.Time // when something that passes was told
	reason error     // why there was no space
}

// saidEvery is how often the operator is told about the disk's space at most.
const saidEvery = time.Second

// tellSpace says when there is no space that is wanted, and when there is again.
func (r *report) tellSpace() {
	full := r.ledger.Full()
	r.mu.Lock()
	defer r.mu.Unlock()
	follows := r.entries != nil && !r.entries.leading.Load()
	if r.full == full || !full && !follows && r.committer.Pressure() != space.Open || !r.at.IsZero() && time.Since(r.at) < saidEvery {
		return
	}
	r.full, r.at = full, time.Now()
	switch {
	case full && follows:
		r.opts.Logger.Error("the disk is full: this server cannot keep up with the others before there is space", "err", r.reason)
	case full:
		r.opts.Logger.Error("the disk is full: changes for which there is no space left are refused; deleting goes on", "err", r.reason)
	case follows:
		r.opts.Logger.Info("there is space again: this server catches up with the others")
	default:
		r.opts.Logger.Info("there is space again: changes are taken")
	}
}

// warnEvery is how often the operator is told of what passes, at most.
const warnEvery = 10 * time.Second

// warn tells of an error that passes.
func (r *report) warn(msg string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warned.IsZero() || time.Since(r.warned) > warnEvery {
		r.warned = time.Now()
		r.opts.Logger.Warn(msg, "err", err)
	}
}

// because notes why there is no space.
func (r *report) because(err error) {
	r.mu.Lock()
	r.reason = err
	r.mu.Unlock()
}

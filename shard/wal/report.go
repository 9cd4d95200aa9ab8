package wal

import (
	"sync"
	"time"

	"polystalk/shard/wal/space"
)

// A report logs whether the disk is full. Its last message is true, or a new one follows.
type report struct {
	*parts

	mu     sync.Mutex
	full   bool      // what the last message said
	at     time.Time // of the last message
	warned time.Time // of the last warning
	reason error     // why there is no space
}

// saidEvery is the minimum time between two messages about the disk's space.
const saidEvery = time.Second

// tellSpace logs when the disk becomes full, and when it has space again.
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
		r.opts.Logger.Error("the disk is full: this server falls behind the others until there is space", "err", r.reason)
	case full:
		r.opts.Logger.Error("the disk is full: changes that need space are refused; deletes still work", "err", r.reason)
	case follows:
		r.opts.Logger.Info("the disk has space again: this server catches up with the others")
	default:
		r.opts.Logger.Info("the disk has space again: changes are accepted")
	}
}

// warnEvery is the minimum time between two warnings.
const warnEvery = 10 * time.Second

// warn logs a temporary error.
func (r *report) warn(msg string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warned.IsZero() || time.Since(r.warned) > warnEvery {
		r.warned = time.Now()
		r.opts.Logger.Warn(msg, "err", err)
	}
}

// because sets the reason for a full disk.
func (r *report) because(err error) {
	r.mu.Lock()
	r.reason = err
	r.mu.Unlock()
}

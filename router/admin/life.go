package admin

import (
	"errors"
	"sync/atomic"

	wire "polystalk/codec/admin"
	"polystalk/shard/commit"
)

// A Phase is a part of a server's life.
type Phase int32

// The phases, one after the other.
const (
	Starting  Phase = iota // the journal is read
	Following              // another server leads, or may; the shards do as that one says
	Serving
	Stopping
)

// String is the phase's name in answers.
func (p Phase) String() string { return [...]string{"starting", "following", "serving", "stopping"}[p] }

// A Life is how far a server's life is. The zero value is at its beginning. All methods may
// be called by anyone at any time.
type Life struct {
	phase     atomic.Int32
	read, all atomic.Int64
	failure   atomic.Pointer[failure]
}

// A failure is why a server cannot go on.
type failure struct {
	text     string
	restarts bool // another server leads: the process begins anew
}

// Phase is where it is. Who sees Serving sees all that was set up before.
func (l *Life) Phase() Phase { return Phase(l.phase.Load()) }

// Follow ends the reading of the journal.
func (l *Life) Follow() { l.phase.CompareAndSwap(int32(Starting), int32(Following)) }

// Serve ends the start. Who was told to stop before that goes on to.
func (l *Life) Serve() {
	if !l.phase.CompareAndSwap(int32(Following), int32(Serving)) {
		l.phase.CompareAndSwap(int32(Starting), int32(Serving))
	}
}

// Stop begins the end.
func (l *Life) Stop() { l.phase.Store(int32(Stopping)) }

// Read notes how many bytes of the journal were read, of how many.
func (l *Life) Read(read, all int64) {
	l.all.Store(all)
	l.read.Store(read)
}

// Progress is what Read has noted; nil: nothing is being read.
func (l *Life) Progress() *wire.Progress {
	all := l.all.Load()
	if l.Phase() != Starting || all == 0 {
		return nil
	}
	return &wire.Progress{ReadBytes: l.read.Load(), AllBytes: all}
}

// Fail notes why the server cannot go on. The first reason counts.
func (l *Life) Fail(err error) {
	f, ok := errors.AsType[*commit.Failure](err)
	l.failure.CompareAndSwap(nil, &failure{err.Error(), ok && f.Cause == commit.Deposed})
}

// Failure is what Fail has noted; empty: nothing.
func (l *Life) Failure() string {
	if f := l.failure.Load(); f != nil {
		return f.text
	}
	return ""
}

// Restarts reports whether the process begins anew because of the failure, and does not end.
func (l *Life) Restarts() bool {
	f := l.failure.Load()
	return f != nil && f.restarts
}

// Bytes are how many bytes of the journal were read, of how many, also after the start.
func (l *Life) Bytes() (read, all int64) { return l.read.Load(), l.all.Load() }

package admin

import (
	"errors"
	"sync/atomic"

	wire "polystalk/codec/admin"
	"polystalk/shard/commit"
)

// A Phase is a phase of a server's life.
type Phase int32

// The phases, in their order.
const (
	Starting  Phase = iota // the journal is read
	Following              // another server leads, or may; the shards apply its changes
	Serving
	Stopping
)

// String returns the phase's name in replies.
func (p Phase) String() string { return [...]string{"starting", "following", "serving", "stopping"}[p] }

// A Life holds a server's phase and its failure. The zero value is Starting. Any goroutine may
// call its methods at any time.
type Life struct {
	phase     atomic.Int32
	read, all atomic.Int64
	failure   atomic.Pointer[failure]
}

// A failure is the reason why a server must stop.
type failure struct {
	text     string
	restarts bool // another server leads: the process restarts
}

// Phase returns the current phase. A goroutine that sees Serving also sees everything that was
// set before.
func (l *Life) Phase() Phase { return Phase(l.phase.Load()) }

// Follow ends the phase Starting.
func (l *Life) Follow() { l.phase.CompareAndSwap(int32(Starting), int32(Following)) }

// Serve begins the phase Serving, unless the server stops.
func (l *Life) Serve() {
	if !l.phase.CompareAndSwap(int32(Following), int32(Serving)) {
		l.phase.CompareAndSwap(int32(Starting), int32(Serving))
	}
}

// Stop begins the phase Stopping.
func (l *Life) Stop() { l.phase.Store(int32(Stopping)) }

// Read sets the number of bytes of the journal that were read, and its size.
func (l *Life) Read(read, all int64) {
	l.all.Store(all)
	l.read.Store(read)
}

// Bytes returns the last values of Read, also after the journal is read.
func (l *Life) Bytes() (read, all int64) { return l.read.Load(), l.all.Load() }

// Progress returns the last values of Read while the journal is read, else nil.
func (l *Life) Progress() *wire.Progress {
	read, all := l.Bytes()
	if l.Phase() != Starting || all == 0 {
		return nil
	}
	return &wire.Progress{ReadBytes: read, AllBytes: all}
}

// Fail sets the reason why the server must stop. Later reasons are ignored.
func (l *Life) Fail(err error) {
	f, ok := errors.AsType[*commit.Failure](err)
	l.failure.CompareAndSwap(nil, &failure{err.Error(), ok && f.Cause == commit.Deposed})
}

// Failure returns the reason that Fail has set, or "".
func (l *Life) Failure() string {
	if f := l.failure.Load(); f != nil {
		return f.text
	}
	return ""
}

// restarts reports whether the process restarts after the failure.
func (l *Life) restarts() bool {
	f := l.failure.Load()
	return f != nil && f.restarts
}

package snapshot

import (
	"errors"
	"sync/atomic"

	"polystalk/shard/wal"
)

const (
	syncStep   = 2 << 20 // bytes of a file between two syncs: longer syncs would delay other writers
	syncsAhead = 8       // syncs that may be queued before the receiver waits for the disk
)

// A syncer makes received files durable on a goroutine of its own. One goroutine calls its
// methods.
type syncer struct {
	todo    chan syncTask
	ended   chan error  // the first error, when the goroutine ends
	failed  atomic.Bool // there was an error
	since   int         // bytes written since the last sync was queued
	stopped bool
	err     error // of stop
}

// A syncTask is a file to sync, and then to close if done.
type syncTask struct {
	file wal.File
	done bool
}

func (s *syncer) start() {
	s.todo, s.ended = make(chan syncTask, syncsAhead), make(chan error, 1)
	go func() {
		var first error
		for t := range s.todo {
			err := first
			if err == nil {
				err = t.file.Sync()
			}
			if t.done {
				err = errors.Join(err, t.file.Close())
			}
			if first == nil && err != nil {
				first = err
				s.failed.Store(true)
			}
		}
		s.ended <- first
	}()
}

// written counts n bytes that were written to f.
func (s *syncer) written(f wal.File, n int) {
	if s.since += n; s.since >= syncStep {
		s.since = 0
		s.todo <- syncTask{f, false}
	}
}

// done syncs and closes a complete file.
func (s *syncer) done(f wal.File) {
	s.since = 0
	s.todo <- syncTask{f, true}
}

// stop waits until all files are durable and closed. Further calls return the same error.
func (s *syncer) stop() error {
	if !s.stopped {
		s.stopped = true
		close(s.todo)
		s.err = <-s.ended
	}
	return s.err
}

package snapshot

import (
	"errors"
	"sync/atomic"

	"polystalk/shard/wal"
)

// syncStep is how many bytes of a file are written between two syncs: large ones would have whoever
// else writes to the disk wait for as long.
const syncStep = 2 << 20

// A syncer makes durable what is received while more comes. Its owner is one goroutine; it has
// another one for the syncs.
type syncer struct {
	todo    chan syncTask
	ended   chan error  // the first error, once the goroutine has ended
	failed  atomic.Bool // there is one already
	since   int         // bytes written since the last sync that was asked for
	stopped bool
	err     error // after that
}

// A syncTask is a file to be synced, and then to be closed, if it is done.
type syncTask struct {
	file wal.File
	done bool
}

// syncsAhead is how many syncs may be asked for before the receiver waits for the disk.
const syncsAhead = 8

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

// written notes that n bytes were written to a file.
func (s *syncer) written(f wal.File, n int) {
	if s.since += n; s.since >= syncStep {
		s.since = 0
		s.todo <- syncTask{f, false}
	}
}

// done has a file synced and closed, to which nothing is written any more.
func (s *syncer) done(f wal.File) {
	s.since = 0
	s.todo <- syncTask{f, true}
}

// stop waits until all is durable that was given to it, and is closed. More than once it is the
// same as once.
func (s *syncer) stop() error {
	if !s.stopped {
		s.stopped = true
		close(s.todo)
		s.err = <-s.ended
	}
	return s.err
}

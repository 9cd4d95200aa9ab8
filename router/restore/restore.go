package restore

import (
	"log/slog"
	"time"

	"polystalk/router/clock"
	"polystalk/router/placement"
	"polystalk/shard/journal"
)

// Config says how jobs are kept across restarts.
type Config struct {
	Dir         string // locked by the caller
	SegmentSize int64  // bytes
	Sync        journal.SyncPolicy
	Every       time.Duration
	Disk        journal.Disk // nil: that of Dir
}

// Descriptors is how many descriptors an open journal has at most, with those of its
// directory and of the lock on that.
const Descriptors = journal.Descriptors + 2

// A Target is what jobs are brought back into. All of it must be given.
type Target struct {
	Places  *placement.Map // whose shards nobody has used
	Clock   *clock.Clock
	Log     *slog.Logger
	Workers int // how many goroutines may read at a time

	// Progress hears how many bytes of the journal were read so far, of how many; nil:
	// nobody wants to know. It is called by Open's goroutine.
	Progress func(read, all int64)
	// Failed hears of the error that ends the journal, before it is delivered; nil: only
	// the channel does. It must not block.
	Failed func(error)
}

// Open gives the journal of a directory, from which all jobs have come back, and which
// has what happens in the shards from now on. It may take its time. notify is that of
// journal.Options. failed delivers the error that ends the journal: nothing more is
// acknowledged then, and the process should end.
//
// After an error nothing may be used any more, and the directory holds what it held.
func (t *Target) Open(cfg *Config, notify func()) (j *journal.Journal, failed <-chan error, err error) {
	disk := cfg.Disk
	if disk == nil {
		disk = journal.Dir(cfg.Dir)
	}
	failure := make(chan error, 1)
	keeper := t.newCopier()
	j = journal.New(journal.Options{
		Disk: disk, SegmentSize: cfg.SegmentSize, Sync: cfg.Sync, Every: cfg.Every,
		Shards: len(t.Places.Shards()), Now: time.Now, Logger: t.Log,
		Copy: keeper.jobs, CopyPause: keeper.tubePause, Lives: keeper.lives,
		Notify: notify,
		Fail: func(err error) {
			if t.Failed != nil {
				t.Failed(err)
			}
			failure <- err
		},
	})
	var m *importing
	if cfg.Dir != "" {
		if m, err = t.findImport(cfg.Dir, j); err != nil {
			return nil, nil, err
		}
	}
	found, err := t.replay(j, m)
	if err != nil {
		return nil, nil, err
	}
	t.report(cfg.Dir, j, found)
	if err := j.Start(); err != nil {
		return nil, nil, err
	}
	if m != nil && m.jobs != nil {
		if err := m.write(t.newCopier(), failure); err != nil {
			return nil, nil, err
		}
	}
	return j, failure, nil
}

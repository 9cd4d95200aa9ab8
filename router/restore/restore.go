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
	failure := make(chan error, 1)
	o := t.options(cfg)
	o.Now, o.Notify = time.Now, notify
	o.Fail = func(err error) {
		if t.Failed != nil {
			t.Failed(err)
		}
		failure <- err
	}
	j = journal.New(o)
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

// OpenByHand is Open for a journal without goroutines: the caller has it commit and tend. So
// nothing happens in it but what the caller says, at the time that now tells. Files of
// beanstalkd's are not taken over.
func (t *Target) OpenByHand(cfg *Config, now func() time.Time, notify func()) (*journal.Journal, error) {
	o := t.options(cfg)
	o.Now, o.Notify, o.Fail, o.Manual = now, notify, t.Failed, true
	j := journal.New(o)
	if _, err := t.replay(j, nil); err != nil {
		return nil, err
	}
	return j, j.Start()
}

// options are those of a journal whose jobs are in the shards.
func (t *Target) options(cfg *Config) journal.Options {
	disk := cfg.Disk
	if disk == nil {
		disk = journal.Dir(cfg.Dir)
	}
	keeper := t.newCopier()
	return journal.Options{
		Disk: disk, SegmentSize: cfg.SegmentSize, Sync: cfg.Sync, Every: cfg.Every,
		Shards: len(t.Places.Shards()), Logger: t.Log,
		Copy: keeper.jobs, CopyPause: keeper.tubePause, Lives: keeper.lives,
	}
}

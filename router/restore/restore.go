package restore

import (
	"log/slog"
	"time"

	"polystalk/router/ops"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// Config says how jobs are kept across restarts.
type Config struct {
	Dir         string // locked by the caller
	SegmentSize int64  // bytes
	Sync        wal.SyncPolicy
	Every       time.Duration
	Disk        wal.Disk // nil: that of Dir

	// Proposer has the journal be the log of a server that is one of several, whose number
	// among them is Node; nil: it is alone. See journal.Options.
	Proposer commit.Proposer
	Node     uint64
}

// Descriptors is how many descriptors an open journal has at most, with those of its
// directory and of the lock on that.
const Descriptors = wal.Descriptors + 2

// A Target is what jobs are brought back into. All of it must be given.
type Target struct {
	Places  *ops.Map // whose shards nobody has used
	Clock   *ops.Clock
	Log     *slog.Logger
	Workers int // how many goroutines may read at a time

	// Progress hears how many bytes of the journal were read so far, of how many; nil:
	// nobody wants to know. It is called by the goroutine that calls Recover.
	Progress func(read, all int64)
	// Failed hears of the error that ends the journal, before it is delivered; nil: only
	// the channel does. It must not block.
	Failed func(*commit.Failure)
}

// Recover reads the journal of a directory, which may take its time. notify is that of
// journal.Options. After an error nothing may be used any more, and the directory holds what
// it held.
func (t *Target) Recover(cfg *Config, notify func()) (*Recovery, error) {
	o := t.options(cfg)
	o.Now, o.Notify = time.Now, notify
	if err := t.resumeExchange(o.Disk); err != nil {
		return nil, err
	}
	r := t.newRecovery(cfg, o)
	if cfg.Dir != "" {
		var err error
		if r.importing, err = t.findImport(cfg.Dir, r.j); err != nil {
			return nil, err
		}
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	return r, nil
}

// RecoverByHand is Recover for a journal without goroutines: the caller has it commit and tend.
// So nothing happens in it but what the caller says, at the time that now tells. Files of
// beanstalkd's are not taken over.
func (t *Target) RecoverByHand(cfg *Config, now func() time.Time, notify func()) (*Recovery, error) {
	o := t.options(cfg)
	o.Now, o.Notify, o.Manual = now, notify, true
	if err := t.resumeExchange(o.Disk); err != nil {
		return nil, err
	}
	r := t.newRecovery(cfg, o)
	if err := r.read(); err != nil {
		return nil, err
	}
	return r, nil
}

// options are those of a journal whose jobs are in the shards.
func (t *Target) options(cfg *Config) commit.Options {
	disk := cfg.Disk
	if disk == nil {
		disk = wal.Dir(cfg.Dir)
	}
	keeper := t.newCopier()
	return commit.Options{
		Options: wal.Options{
			Disk: disk, SegmentSize: cfg.SegmentSize, Sync: cfg.Sync, Every: cfg.Every, Logger: t.Log,
			Copy: keeper.jobs, CopyPause: keeper.tubePause, Lives: keeper.lives,
		},
		Shards:   len(t.Places.Shards()),
		Proposer: cfg.Proposer,
		Node:     cfg.Node,
	}
}

// resumeExchange finishes the exchange of the journal for another, if the process has ended
// within one, or removes what it had of another.
func (t *Target) resumeExchange(d wal.Disk) error {
	switch found, err := exchange.Resume(d); {
	case err != nil:
		return err
	case found == exchange.Leftover:
		t.Log.Warn("a journal of another server was being received when the server ended; what had come of it was removed")
	case found == exchange.Exchanged:
		t.Log.Info("the journal of another server is in the place of the one that was here: the exchange had begun when the server ended")
	}
	return nil
}

// Package restore recovers the jobs of a starting server: it opens the journal, replays it into
// the shards, and imports a directory that beanstalkd wrote.
//
//	Recover ─► the journal was read; only its own files were written
//	Follow  ─► the shards are in its state, and every id leads to its job
//	           Apply, Settle: the shards apply the records of the leader
//	Lead    ─► changes of the shards are recorded; imported jobs are written to the journal
//
// A single server runs these stages in sequence. A server of a cluster may stay between Follow and
// Lead for any time: the time that Lead takes does not depend on the number of jobs.
package restore

import (
	"log/slog"
	"time"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// Config has the settings of the journal.
type Config struct {
	Dir         string // locked by the caller
	SegmentSize int64  // bytes
	Sync        wal.SyncPolicy
	Every       time.Duration
	Disk        wal.Disk // nil: the disk of Dir

	// Proposer makes the journal the log of a server of a cluster, with the number Node; nil: the
	// server is alone. See commit.Options.
	Proposer commit.Proposer
	Node     uint64
}

// Descriptors bounds the descriptors of an open journal, including its directory and lock.
const Descriptors = wal.Descriptors + 2

// A Target is a server into which jobs are restored. All fields except the functions must be set.
type Target struct {
	Places  *ops.Map // with unused shards
	Clock   *ops.Clock
	Log     *slog.Logger
	Workers int // number of goroutines that read

	// Progress gets the number of bytes read, and the size of the journal. The goroutine that
	// calls Recover calls it.
	Progress func(read, all int64)
	// Failed gets the failure of the journal, before Recovery.Failed delivers it. It must not
	// block.
	Failed func(*commit.Failure)
}

// Recover reads the journal of cfg, which may take long. The caller sets Now and Notify of o, and
// Manual for a journal without goroutines, and Recover the rest. Files of beanstalkd are imported
// only from cfg.Dir. After an error the shards must not be used, and the directory is unchanged.
func (t *Target) Recover(cfg *Config, o commit.Options) (*Recovery, error) {
	if o.Disk = cfg.Disk; o.Disk == nil {
		o.Disk = wal.Dir(cfg.Dir)
	}
	if err := t.resumeExchange(o.Disk); err != nil {
		return nil, err
	}
	r := &Recovery{t: t, dir: cfg.Dir, failure: make(chan *commit.Failure, 1)}
	keeper := t.newCopier()
	o.SegmentSize, o.Sync, o.Every, o.Logger = cfg.SegmentSize, cfg.Sync, cfg.Every, t.Log
	o.Copy, o.CopyOther, o.Lives = keeper.jobs, keeper.other, keeper.lives
	o.Fail = func(f *commit.Failure) {
		if t.Failed != nil {
			t.Failed(f)
		}
		r.failure <- f
	}
	o.Shards, o.Proposer, o.Node = len(t.Places.Shards()), cfg.Proposer, cfg.Node
	r.j = commit.New(o)
	if cfg.Dir != "" {
		var err error
		if r.importing, err = t.findImport(cfg.Dir, r.j); err != nil {
			return nil, err
		}
	}
	return r, r.read()
}

// RecoverFrom is Recover for a journal that the caller has made and tends.
func (t *Target) RecoverFrom(j *commit.Journal) (*Recovery, error) {
	r := &Recovery{t: t, j: j}
	return r, r.read()
}

// resumeExchange finishes an interrupted exchange of the journal for the leader's, or removes a
// journal that was received only in part.
func (t *Target) resumeExchange(d wal.Disk) error {
	switch found, err := exchange.Resume(d); {
	case err != nil:
		return err
	case found == exchange.Leftover:
		t.Log.Warn("removed a partly received journal of another server: the server had ended during the transfer")
	case found == exchange.Exchanged:
		t.Log.Info("a received journal has replaced this server's journal: the exchange had begun when the server ended")
	}
	return nil
}

// A copier makes shards record existing jobs again: for a journal that frees old segments, and
// for imported jobs. It waits until a shard is free. Not safe for concurrent use.
type copier struct {
	places *ops.Map
	clock  *ops.Clock
	batch  shard.Batch
}

func (t *Target) newCopier() *copier {
	return &copier{places: t.Places, clock: t.Clock, batch: shard.Batch{Home: nobody{}}}
}

// nobody is the Home of a batch without messages.
type nobody struct{}

func (nobody) Post(*core.Message) {}

// at returns the shard of a slot, and stamps the batch.
func (c *copier) at(slot uint16) *shard.Shard {
	c.clock.Stamp(&c.batch)
	return c.places.Shard(c.places.OfSlot(slot))
}

// jobs, other and lives are Copy, CopyOther and Lives of wal.Options.
func (c *copier) jobs(slot uint16, ids []uint64, after uint64) {
	c.at(slot).Recopy(&c.batch, ids, after, nil)
}

func (c *copier) other(r *record.Record) { c.at(r.Slot).Recopy(&c.batch, nil, 0, r) }

func (c *copier) lives(slot uint16, id, after uint64) bool {
	return c.at(slot).NeedsCopy(&c.batch, id, after)
}

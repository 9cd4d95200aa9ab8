package restore

import (
	"fmt"
	"sync"

	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// A Recovery brings a server's jobs back in stages, one after the other:
//
//	Recover ─► what the journal holds is read, and nothing was written but its files
//	Follow  ─► the shards are as it says, and every id leads to its job
//	           Apply, Settle: the same of what others have written since
//	Lead    ─► what happens in the shards from now on is recorded
//
// A server that is alone goes through them in a row. One that follows another may stay
// between Follow and Lead for as long as it likes, so that it leads soon once it has to:
// nothing then depends on how many jobs there are.
//
// One goroutine uses it, and owns all shards until Lead has returned.
type Recovery struct {
	t         *Target
	dir       string // for the log
	j         *commit.Journal
	failure   chan *commit.Failure
	importing *importing // nil: there are no files of beanstalkd's
	found     *wal.Recovered
	replays   []*core.Replay // by shard
}

// newRecovery begins one, of a journal with these options.
func (t *Target) newRecovery(cfg *Config, o commit.Options) *Recovery {
	r := &Recovery{t: t, dir: cfg.Dir, failure: make(chan *commit.Failure, 1)}
	o.Fail = func(f *commit.Failure) {
		if t.Failed != nil {
			t.Failed(f)
		}
		r.failure <- f
	}
	r.j = commit.New(o)
	return r
}

// RecoverFrom is Recover of a journal that the caller made, and will look after.
func (t *Target) RecoverFrom(j *commit.Journal) (*Recovery, error) {
	r := &Recovery{t: t, j: j}
	return r, r.read()
}

// Journal is that which is brought back. It takes what happens once it leads.
func (r *Recovery) Journal() *commit.Journal { return r.j }

// Failed delivers the error that ends the journal: nothing more is acknowledged then, and the
// process should end, or begin anew, as its cause says.
func (r *Recovery) Failed() <-chan *commit.Failure { return r.failure }

// read has all that the journal holds in the replays, or what is to be taken over, whose jobs
// are left to be written once it leads. A worker has whole shards, so that each hears of its
// tubes in order.
func (r *Recovery) read() error {
	t, shards := r.t, r.t.Places.Shards()
	workers := r.workers()
	var moment shard.Batch
	t.Clock.Stamp(&moment)
	r.replays = make([]*core.Replay, len(shards))
	for i, sh := range shards {
		r.replays[i] = sh.Replay()
		r.replays[i].Ahead = moment.Ahead
	}
	var err error
	r.found, err = r.j.Recover(wal.Replayer{
		Workers:  workers,
		Worker:   func(slot uint16) int { return t.Places.OfSlot(slot) % workers },
		Apply:    func(w int, rec *record.Record) error { return r.applyFrom(w, workers, rec) },
		Progress: t.Progress,
	})
	if err != nil {
		return err
	}
	if r.importing != nil {
		if err := r.importing.readIfWanted(r.found.Segments == 0, r.replays); err != nil {
			return err
		}
	}
	return r.j.Open()
}

// workers is how many goroutines work at a time. Worker w has the shards w, w+workers, ….
func (r *Recovery) workers() int { return min(r.t.Workers, len(r.t.Places.Shards())) }

// eachShard calls f for every shard, from the goroutine of its worker.
func (r *Recovery) eachShard(f func(i int)) {
	var wait sync.WaitGroup
	workers := r.workers()
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(r.replays); i += workers {
				f(i)
			}
		})
	}
	wait.Wait()
}

// Follow has the shards be as the journal says, and the ids of all jobs lead to them. From then
// on both follow what Apply is told.
func (r *Recovery) Follow() {
	shards, ids := r.t.Places.Shards(), r.t.Places.IDs()
	now := r.t.Clock.Now()
	for i, sh := range shards {
		sh.Record(r.j.Log(i)) // whose sums then follow as well
	}
	r.eachShard(func(i int) {
		r.replays[i].Settle(now)
		shards[i].EachID(func(id core.JobID) { ids.Note(id, i) })
		r.replays[i].Hear = func(id core.JobID, lives bool) {
			if lives {
				ids.Note(id, i)
			} else {
				ids.Forget(id)
			}
		}
	})
	r.resumeIDs()
	r.report()
}

// applyFrom takes a record for a worker of so many: one that concerns no slot is for all shards
// of its.
func (r *Recovery) applyFrom(worker, workers int, rec *record.Record) error {
	if rec.Kind != record.Epoch {
		return r.Apply(rec)
	}
	for i := worker; i < len(r.replays); i += workers {
		if err := r.replays[i].Apply(rec); err != nil {
			return err
		}
	}
	return nil
}

// Apply takes a record that another server has written. Records of one slot come in order, and
// those of different shards may come from different goroutines, but for an Epoch: that is for
// all of them, so all that came before must have been applied.
func (r *Recovery) Apply(rec *record.Record) error {
	if rec.Kind == record.Epoch {
		return r.applyFrom(0, 1, rec)
	}
	return r.replays[r.t.Places.OfSlot(rec.Slot)].Apply(rec)
}

// Settle brings into order what was applied; a follower calls it now and then, since its cost
// is linear in what has changed. See core.Replay.
func (r *Recovery) Settle() {
	now := r.t.Clock.Now()
	r.eachShard(func(i int) { r.replays[i].Settle(now) })
	r.resumeIDs()
}

// resumeIDs has ids go on behind the highest that was ever given out.
func (r *Recovery) resumeIDs() {
	high := r.j.HighID()
	for i := range r.replays {
		high = max(high, r.j.Log(i).Buffer.HighID)
	}
	r.t.Places.IDs().Resume(high)
}

// Lead has the shards go on by themselves from this moment, and the journal commit what they
// record. After an error nothing may be used any more.
func (r *Recovery) Lead() error {
	now := r.t.Clock.Now()
	for _, p := range r.replays {
		p.Done(now) // one after the other: list-tubes shows in which order
	}
	r.resumeIDs()
	if err := r.j.Lead(); err != nil {
		r.j.Close() // the error is what there is to tell
		return err
	}
	if m := r.importing; m != nil && m.jobs != nil {
		return m.write(r.t.newCopier(), r.failure)
	}
	return nil
}

// report logs what was found, if anything was.
func (r *Recovery) report() {
	log, found := r.t.Log, r.found
	if found.Segments == 0 {
		return
	}
	if found.Cut != "" {
		log.Warn("the journal ended in the middle of a write that was never acknowledged as durable; that was cut off", "at", found.Cut)
	}
	jobs := int64(0)
	for i := range r.replays {
		jobs += r.j.Log(i).Buffer.Jobs
	}
	log.Info("journal read", "dir", r.dir, "jobs", jobs,
		"segments", found.Segments, "batches", found.Batches, "bytes", found.Bytes,
		"took", fmt.Sprintf("%.3fs", found.Took.Seconds()))
}

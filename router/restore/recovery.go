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

// A Recovery restores a server's jobs in the stages of the package comment. One goroutine uses
// it, and owns all shards until Lead returns.
type Recovery struct {
	t         *Target
	dir       string // for the log
	j         *commit.Journal
	failure   chan *commit.Failure
	importing *importing // nil: there are no beanstalkd files
	found     *wal.Recovered
	replays   []*core.Replay // by shard
}

// Journal returns the journal. It records changes after Lead.
func (r *Recovery) Journal() *commit.Journal { return r.j }

// Failed returns a channel that delivers the failure of the journal. After a failure nothing is
// acknowledged. The process should end or restart, depending on the cause.
func (r *Recovery) Failed() <-chan *commit.Failure { return r.failure }

// read reads the journal, or the files to import, into the replays. Each shard has one worker, so
// that its tubes are created in order.
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

// workers returns the number of workers. Worker w has the shards w, w+workers, ….
func (r *Recovery) workers() int { return min(r.t.Workers, len(r.t.Places.Shards())) }

// eachShard calls f for every shard. Each worker runs in a goroutine.
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

// Follow brings the shards to the state of the journal, and notes the shards of all job ids. After
// that, Apply updates both.
func (r *Recovery) Follow() {
	shards, ids := r.t.Places.Shards(), r.t.Places.IDs()
	now := r.t.Clock.Now()
	for i, sh := range shards {
		sh.Record(r.j.Log(i)) // Apply then also updates the log's sums
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

// applyFrom applies a record for one of the workers. An Epoch applies to all shards of the worker.
func (r *Recovery) applyFrom(worker, workers int, rec *record.Record) error {
	if rec.Kind != record.KindEpoch {
		return r.Apply(rec)
	}
	for i := worker; i < len(r.replays); i += workers {
		if err := r.replays[i].Apply(rec); err != nil {
			return err
		}
	}
	return nil
}

// Apply applies a record that another server has written. Records of one slot must come in order.
// Different goroutines may apply records of different shards. An Epoch applies to all shards, so
// all earlier records must have been applied.
func (r *Recovery) Apply(rec *record.Record) error {
	if rec.Kind == record.KindEpoch {
		return r.applyFrom(0, 1, rec)
	}
	return r.replays[r.t.Places.OfSlot(rec.Slot)].Apply(rec)
}

// Settle sorts the applied changes. A follower calls it periodically, because its cost is linear in
// the number of changes since the last call. See core.Replay.
func (r *Recovery) Settle() {
	now := r.t.Clock.Now()
	r.eachShard(func(i int) { r.replays[i].Settle(now) })
	r.resumeIDs()
}

// resumeIDs makes ids continue after the highest one ever allocated.
func (r *Recovery) resumeIDs() {
	high := r.j.HighID()
	for i := range r.replays {
		high = max(high, r.j.Log(i).Buffer.HighID)
	}
	r.t.Places.IDs().Resume(high)
}

// Lead makes the shards accept operations, and the journal commit their records. After an error
// the Recovery, its shards and its journal must not be used.
func (r *Recovery) Lead() error {
	now := r.t.Clock.Now()
	for _, p := range r.replays {
		p.Done(now) // one after the other: list-tubes shows the order
	}
	r.resumeIDs()
	if err := r.j.Lead(); err != nil {
		r.j.Close() // the first error counts
		return err
	}
	if m := r.importing; m != nil && m.jobs != nil {
		return m.write(r.t.newCopier(), r.failure)
	}
	return nil
}

// report logs a summary of the journal.
func (r *Recovery) report() {
	log, found := r.t.Log, r.found
	if found.Segments == 0 {
		return
	}
	if found.Cut != "" {
		log.Warn("the journal ended with an incomplete write, which was never acknowledged as durable; it was removed", "at", found.Cut)
	}
	jobs := int64(0)
	for i := range r.replays {
		jobs += r.j.Log(i).Buffer.Jobs
	}
	log.Info("journal read", "dir", r.dir, "jobs", jobs,
		"segments", found.Segments, "batches", found.Batches, "bytes", found.Bytes,
		"took", fmt.Sprintf("%.3fs", found.Took.Seconds()))
}

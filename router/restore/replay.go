package restore

import (
	"fmt"
	"sync"

	"polystalk/shard"
	"polystalk/shard/core"
	"polystalk/shard/journal"
	"polystalk/shard/record"
)

// Replay brings back what a journal holds that the caller made, and will start and look
// after: Open does so for one that runs by itself.
func (t *Target) Replay(j *journal.Journal) error {
	_, err := t.replay(j, nil)
	return err
}

// replay brings back what the journal holds, or what is to be taken over. Its jobs are
// left to be written then. A worker has whole shards, so that each hears of its tubes in
// order.
func (t *Target) replay(j *journal.Journal, m *importing) (*journal.Recovered, error) {
	shards := t.Places.Shards()
	workers := min(t.Workers, len(shards))
	var moment shard.Batch
	t.Clock.Stamp(&moment)
	replays := make([]*core.Replay, len(shards))
	for i, sh := range shards {
		replays[i] = sh.Replay()
		replays[i].Ahead = moment.Ahead
	}
	found, err := j.Recover(journal.Replayer{
		Workers: workers,
		Worker:  func(slot uint16) int { return t.Places.OfSlot(slot) % workers },
		Apply: func(_ int, r *record.Record) error {
			return replays[t.Places.OfSlot(r.Slot)].Apply(r)
		},
		Progress: t.Progress,
	})
	if err != nil {
		return found, err
	}
	if m != nil {
		if err := m.readIfWanted(found.Segments == 0, replays); err != nil {
			return found, err
		}
	}
	now := t.Clock.Now()
	for i, r := range replays {
		shards[i].Record(j.Log(i))
		r.Done(now) // one after the other: list-tubes shows in which order
	}
	t.noteIDs(j, workers)
	return found, nil
}

// noteIDs has the ids of all jobs lead to their shards, and new ones begin behind the
// highest that was ever given out.
func (t *Target) noteIDs(j *journal.Journal, workers int) {
	shards, ids := t.Places.Shards(), t.Places.IDs()
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(shards); i += workers {
				shards[i].EachID(func(id core.JobID) { ids.Note(id, i) })
			}
		})
	}
	wait.Wait()
	ids.Resume(j.HighID())
}

// report logs what was found, if anything was.
func (t *Target) report(dir string, j *journal.Journal, found *journal.Recovered) {
	if found.Segments == 0 {
		return
	}
	if found.Cut != "" {
		t.Log.Warn("the journal ended in the middle of a write that was never acknowledged as durable; that was cut off", "at", found.Cut)
	}
	jobs := int64(0)
	for i := range t.Places.Shards() {
		jobs += j.Log(i).Buffer.Jobs
	}
	t.Log.Info("journal read", "dir", dir, "jobs", jobs,
		"segments", found.Segments, "batches", found.Batches, "bytes", found.Bytes,
		"took", fmt.Sprintf("%.3fs", found.Took.Seconds()))
}

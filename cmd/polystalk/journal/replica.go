package journal

import (
	"math"
	"slices"
	"time"

	"polystalk/shard/core"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// A replica holds the jobs of a journal in one core, in the state in which a server would start.
type replica struct {
	core   *core.Core
	replay *core.Replay
	now    time.Time
	paused map[string]pause // last pause of each tube; it may be over
	view   record.Buffer    // for job

	unfinished int // bodies with a missing part
	unreadable int // records, or rests of batches
}

// A pause is the pause of a tube, in Unix nanoseconds and nanoseconds.
type pause struct{ until, length int64 }

func newReplica() *replica {
	machine := core.New(nil)
	return &replica{core: machine, replay: machine.Replay(), now: time.Now(), paused: make(map[string]pause)}
}

func (r *replica) close() { r.core.Close() }

// read replays the readable part of a journal; with cutOff, also the part that a start cuts off.
func (r *replica) read(v *wal.Survey, cutOff bool) error {
	err := v.Each(cutOff, func(b *wal.Batch) error {
		if b.Broken {
			r.unfinished += r.replay.Gap()
		}
		if b.Replaced {
			return nil
		}
		for rec, err := range b.Records() {
			if err == nil {
				err = r.apply(rec)
			}
			if err != nil {
				// The survey lists it as damage.
				r.unreadable++
				r.unfinished += r.replay.Gap()
			}
		}
		return nil
	})
	if err == nil {
		r.unfinished += r.replay.Gap()
	}
	return err
}

func (r *replica) apply(rec *record.Record) error {
	if rec.Kind == record.KindPause {
		r.paused[string(rec.Tube)] = pause{rec.Until, rec.Length}
	}
	return r.replay.Apply(rec)
}

// done ends the replay. Afterwards the core describes jobs into buf.
func (r *replica) done(buf *record.Buffer) {
	r.core.RecordTo(buf)
	r.replay.Done(core.Time(r.now.UnixNano()))
	for name, p := range r.paused {
		if p.until <= r.now.UnixNano() {
			delete(r.paused, name)
		}
	}
}

// ids returns the ids of all jobs, sorted.
func (r *replica) ids() []core.JobID {
	var ids []core.JobID
	r.core.EachID(func(id core.JobID) { ids = append(ids, id) })
	slices.Sort(ids)
	return ids
}

// job returns a job, which is valid until the next call. done must have been called with &r.view.
func (r *replica) job(id core.JobID) (*record.Job, error) {
	b := &r.view
	b.Data, b.Refs = b.Data[:0], nil
	r.core.CopyJob(id, math.MaxUint64)
	var rec record.Record
	if _, err := record.Parse(&rec, b.Data); err != nil {
		return nil, err
	}
	if rec.Chunked > 0 {
		rec.Body = make([]byte, 0, rec.Chunked)
		for _, ref := range b.Refs {
			rec.Body = append(rec.Body, ref.Piece...)
		}
	}
	return &rec.Job, nil
}

// stateOf returns the state that a job has after a start.
func (r *replica) stateOf(j *record.Job) string {
	switch {
	case j.State == record.Buried:
		return "buried"
	case j.State == record.Delayed && j.Due > r.now.UnixNano():
		return "delayed"
	}
	return "ready"
}

// pausedTubes returns the names of the paused tubes, sorted.
func (r *replica) pausedTubes() []string {
	names := make([]string, 0, len(r.paused))
	for name := range r.paused {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

package journal

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"time"

	"polystalk/codec/binlog"
	"polystalk/router/restore"
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

	policies   []string // files with a record of policies, which earlier releases cannot read
	unfinished int      // bodies with a missing part
	unreadable int      // records, or rests of batches
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
			if rec != nil && rec.Kind == record.KindPolicies && !slices.Contains(r.policies, b.File) {
				r.policies = append(r.policies, b.File)
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

// Export writes the jobs of a journal as files of beanstalkd.
func Export(dir, to string, out io.Writer) error {
	s, err := openSource(dir)
	if err != nil {
		return err
	}
	defer s.close()
	v, err := s.journal()
	if err != nil {
		return err
	}
	if err := s.damaged(s.salvageAdvice() + ", from where it can be exported"); err != nil {
		return err
	}
	r := newReplica()
	defer r.close()
	if err := r.read(v, false); err != nil {
		return err
	}
	r.done(&r.view)
	t, err := openTarget(to, dir)
	if err != nil {
		return err
	}
	highest := core.JobID(0)
	done, err := binlog.WriteDir(to, r.logged(&highest))
	if err != nil {
		t.discard()
		return err
	}
	s.writeTorn(out, "it is left out")
	for _, w := range done.Warnings {
		fmt.Fprintf(out, "warning: %v\n", w)
	}
	for _, name := range r.pausedTubes() {
		fmt.Fprintf(out, "warning: tube %q is paused until %s: beanstalkd forgets the pause\n", name, nano(r.paused[name].until))
	}
	if n := len(r.core.RecordedPolicies().List()); n > 0 {
		fmt.Fprintf(out, "warning: %s: beanstalkd has none\n", counted(n, "policy is left out", "policies are left out"))
	}
	if high := v.Globals.HighID; high > uint64(highest) {
		fmt.Fprintf(out, "warning: deleted jobs used ids up to %d: beanstalkd continues from %d, and reuses ids\n", high, highest+1)
	}
	fmt.Fprintf(out, "written: %s, %s, in %s: start beanstalkd -b %s", counted(done.Jobs, "job", "jobs"), counted(done.Bytes, "byte", "bytes"), to, to)
	if done.MaxJobSize > 0 {
		fmt.Fprintf(out, " -z %d", done.MaxJobSize)
	}
	fmt.Fprintln(out)
	return t.close()
}

// logged returns all jobs in the order of beanstalkd's log: by id, then the buried ones by time of
// bury, because beanstalkd restores buried jobs in the order of its log.
func (r *replica) logged(highest *core.JobID) iter.Seq2[binlog.Job, error] {
	return func(yield func(binlog.Job, error) bool) {
		type burial struct {
			id core.JobID
			at int64
		}
		var buried []burial
		give := func(j *record.Job, err error) bool {
			if err != nil {
				yield(binlog.Job{}, err)
				return false
			}
			return yield(restore.JobOf(j), nil)
		}
		for _, id := range r.ids() {
			*highest = id
			j, err := r.job(id)
			if err == nil && j.State == record.Buried {
				buried = append(buried, burial{id, j.Due})
				continue
			}
			if !give(j, err) {
				return
			}
		}
		slices.SortStableFunc(buried, func(a, b burial) int { return cmp.Compare(a.at, b.at) })
		for _, b := range buried {
			if !give(r.job(b.id)) {
				return
			}
		}
	}
}

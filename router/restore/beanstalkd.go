package restore

import (
	"iter"
	"math"
	"time"

	"polystalk/codec/binlog"
	"polystalk/shard/core"
	"polystalk/shard/record"
)

// Records returns records that make the jobs of beanstalkd's files. Each is valid until the next.
func Records(jobs *binlog.Contents) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		var buf []byte
		alloc := func(n int) []byte {
			if cap(buf) < n {
				buf = make([]byte, n)
			}
			return buf[:n]
		}
		buried := int64(0)
		for j, err := range jobs.Jobs(alloc) {
			if err != nil {
				yield(nil, err)
				return
			}
			r := &record.Record{Kind: record.KindCopy, Slot: core.SlotOf([]byte(j.Tube)), Job: record.Job{
				ID: j.ID, Created: j.Created, Pri: j.Pri,
				Delay: wholeSeconds(int64(j.Delay)), TTR: max(1, wholeSeconds(int64(j.TTR))),
				State: record.Ready,
				Counts: record.Counts{
					Reserves: j.Reserves, Timeouts: j.Timeouts, Releases: j.Releases, Buries: j.Buries, Kicks: j.Kicks,
				},
				Tube: []byte(j.Tube), Body: j.Body,
			}}
			switch j.State {
			case binlog.Delayed:
				r.Job.State, r.Due = record.Delayed, max(1, j.Deadline)
			case binlog.Buried:
				// The time of the bury is unknown; the order in the files is kept.
				buried++
				r.Job.State, r.Due = record.Buried, buried
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func wholeSeconds(ns int64) uint32 {
	return uint32(min(max(0, ns/int64(core.Second)), math.MaxUint32))
}

// JobOf converts a job of the journal to beanstalkd's format. They share the Body.
func JobOf(j *record.Job) binlog.Job {
	b := binlog.Job{
		ID: j.ID, Tube: string(j.Tube), Pri: j.Pri, State: binlog.State(j.State), Created: j.Created,
		Delay: time.Duration(j.Delay) * time.Second, TTR: time.Duration(j.TTR) * time.Second,
		Reserves: j.Counts.Reserves, Timeouts: j.Counts.Timeouts, Releases: j.Counts.Releases, Buries: j.Counts.Buries, Kicks: j.Counts.Kicks,
		Body: j.Body,
	}
	if b.State == binlog.Delayed {
		b.Deadline = j.Due
	}
	return b
}

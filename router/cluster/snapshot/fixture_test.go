package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	"polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A journal is an open journal and its jobs. Its goroutine is the test's.
type journal struct {
	*commit.Journal
	t    *testing.T
	disk wal.Disk
	jobs map[uint64]string // bodies by ID
	at   map[uint64]uint64 // the commits that have recorded them
	last uint64            // the latest ID

	policies []record.Policy // that it began with
}

// openJournal opens the journal of a disk.
func openJournal(t *testing.T, d wal.Disk) *journal {
	t.Helper()
	j := &journal{t: t, disk: d, jobs: map[uint64]string{}, at: map[uint64]uint64{}}
	j.Journal = commit.New(commit.Options{
		Options: wal.Options{
			Disk: d, SegmentSize: wal.SegmentMin, Manual: true, Now: time.Now,
			Copy: j.record, CopyOther: func(*record.Record) {},
		},
		Shards: 1,
	})
	_, err := j.Recover(wal.Replayer{Workers: 1, Worker: func(uint16) int { return 0 }, Apply: func(_ int, r *record.Record) error {
		switch r.Kind {
		case record.KindPut, record.KindCopy:
			j.jobs[r.ID], j.last = string(r.Body), max(j.last, r.ID)
		case record.KindDelete:
			delete(j.jobs, r.ID)
		case record.KindPolicies:
			j.policies = r.Policies
		}
		return nil
	}})
	if err == nil {
		err = j.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// record records the live jobs that were not recorded since a commit.
func (j *journal) record(_ uint16, ids []uint64, after uint64) {
	j.change(func(b *record.Buffer) {
		for _, id := range ids {
			if body, ok := j.jobs[id]; ok && j.at[id] <= after {
				j.at[id] = b.Commit
				b.Put(&record.Job{ID: id, State: record.Ready, Tube: []byte("default"), TTR: 60, Body: []byte(body)}, 0, nil)
			}
		}
	})
}

// change appends records, and accounts for the jobs that live.
func (j *journal) change(f func(*record.Buffer)) {
	log := j.Log(0)
	log.Begin()
	b := &log.Buffer
	f(b)
	b.Live, b.Jobs = 0, int64(len(j.jobs))
	for _, body := range j.jobs {
		size := record.JobSize(len("default"), len(body))
		b.Live, b.Largest = b.Live+size, max(b.Largest, record.LargestOf(size, len(body)))
	}
	log.End()
}

// put puts and commits jobs of a size in bytes.
func (j *journal) put(jobs, size int) {
	j.t.Helper()
	for range jobs {
		j.last++
		j.jobs[j.last] = string(bytes.Repeat(fmt.Appendf(nil, "job %d;", j.last), size/6+1)[:size])
		j.record(0, []uint64{j.last}, 0)
		j.commit()
	}
}

// remove deletes a job.
func (j *journal) remove(id uint64) {
	j.t.Helper()
	delete(j.jobs, id)
	j.change(func(b *record.Buffer) { b.Delete(id, 0) })
	j.commit()
}

func (j *journal) commit() {
	j.t.Helper()
	if err := j.Commit(); err != nil {
		j.t.Fatal(err)
	}
	if err := j.Tend(); err != nil {
		j.t.Fatal(err)
	}
}

func (j *journal) close() {
	j.t.Helper()
	if err := j.Close(); err != nil {
		j.t.Fatal(err)
	}
}

// jobsOf returns the jobs that a start from a disk finds, after which it continues.
func jobsOf(t *testing.T, d wal.Disk) map[uint64]string {
	t.Helper()
	j := openJournal(t, d)
	jobs := maps.Clone(j.jobs)
	j.put(5, 1000)
	j.close()
	return jobs
}

// same fails the test unless the jobs are as wanted.
func same(t *testing.T, got, want map[uint64]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		head := func(jobs map[uint64]string) []uint64 { return slices.Sorted(maps.Keys(jobs))[:min(5, len(jobs))] }
		t.Fatalf("%d jobs, want %d: %v and %v", len(got), len(want), head(got), head(want))
	}
}

// journalWith returns a journal with jobs of 2000 bytes.
func journalWith(t *testing.T, jobs int) *journal {
	j := openJournal(t, fakedisk.New(1))
	j.put(jobs, 2000)
	return j
}

// compacted returns a journal with several segments that has dropped some.
func compacted(t *testing.T) *journal {
	j := openJournal(t, fakedisk.New(1))
	j.put(30, 40_000)
	for id := uint64(1); id <= 25; id++ {
		j.remove(id)
	}
	j.put(20, 20_000)
	return j
}

// frame encodes a frame.
func frame(kind byte, body string) string {
	var b strings.Builder
	writeFrame(&b, kind, []byte(body))
	return b.String()
}

package journal

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// A rescue is jobs on their way into a new journal.
type rescue struct {
	r        *replica
	highID   uint64 // given to a job, also to one that is gone: ids go on above it
	imported uint64 // the last of beanstalkd's files that the old journal had taken over
	jobs     int    // written
}

const (
	// unfinished is where the new journal lies until it is complete: a server
	// must not take half of it for all.
	unfinished = "unfinished"

	// segmentSize is in bytes, as polystalkd has it without -s.
	segmentSize = 10 << 20
	// commitSize is about how many bytes of records are written at once: enough to keep
	// the disk busy, and little memory.
	commitSize = 256 << 10
)

// write makes the journal in dir, which is empty.
func (w *rescue) write(dir string) error {
	work := filepath.Join(dir, unfinished)
	if err := os.Mkdir(work, 0o700); err != nil {
		return fmt.Errorf("writing the new journal: %w", err)
	}
	err := w.fill(wal.Dir(work))
	if err == nil {
		err = moveUp(work, dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing the new journal: %w", err), os.RemoveAll(work))
	}
	return nil
}

// fill writes the jobs to a journal on disk.
func (w *rescue) fill(disk wal.Disk) (err error) {
	j := commit.New(commit.Options{Shards: 1, Options: wal.Options{
		// Made durable in the end, all at once.
		Disk: disk, SegmentSize: segmentSize, Sync: wal.SyncNever, Now: time.Now, Manual: true,
	}})
	log := j.Log(0)
	w.r.done(&log.Buffer)
	j.RaiseID(w.highID)
	if err := j.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	w.highID = j.HighID()
	for _, id := range w.r.ids() {
		log.Begin()
		w.r.core.CopyJob(id, math.MaxUint64)
		full := len(log.Buffer.Data) >= commitSize || len(log.Buffer.Refs) > 0
		log.End()
		w.jobs++
		if full {
			if err := j.Commit(); err != nil {
				return err
			}
		}
	}
	for _, name := range w.r.pausedTubes() {
		log.Begin()
		w.r.core.CopyPause([]byte(name))
		log.End()
	}
	return j.SetImported(w.imported)
}

// moveUp moves the files, once they have been read again, to where they belong.
// The first goes last, when the others are there for good: a journal without its
// beginning is refused, one without its end would not show.
func moveUp(from, to string) error {
	v, err := wal.Look(wal.ReadOnlyDir(from))
	if err != nil {
		return err
	}
	if len(v.Losses) > 0 {
		return &v.Losses[0].Damage
	}
	for i := len(v.Segments) - 1; i >= 0; i-- {
		if i == 0 {
			if err := wal.Dir(to).Sync(); err != nil {
				return err
			}
		}
		name := v.Segments[i].File
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	if err := wal.Dir(to).Sync(); err != nil {
		return err
	}
	return os.Remove(from)
}

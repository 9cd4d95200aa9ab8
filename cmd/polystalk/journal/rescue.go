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

// A rescue writes jobs to a new journal.
type rescue struct {
	r        *replica
	highID   uint64 // the highest id of any job, even a deleted one: new ids are higher
	imported uint64 // number of the last beanstalkd file that the old journal imported
	jobs     int    // written so far
}

const (
	// unfinished is the directory of the new journal until it is complete, so a server cannot use
	// an incomplete one.
	unfinished = "unfinished"

	// segmentSize is polystalkd's default for -s, in bytes.
	segmentSize = 10 << 20
	// commitSize is how many bytes of records are written at once: enough to keep the disk busy,
	// without much memory.
	commitSize = 256 << 10
)

// write writes the journal to dir, which must be empty.
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

// fill writes the jobs.
func (w *rescue) fill(disk wal.Disk) (err error) {
	j := commit.New(commit.Options{Shards: 1, Options: wal.Options{
		// Everything is made durable at the end.
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

// moveUp checks the files and moves them to their place. It moves the first file last, when the
// others are durable: a server refuses a journal without its beginning, but cannot detect a missing
// end.
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

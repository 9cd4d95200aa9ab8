package journal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/binlog"
	"polystalk/router/restore"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// Salvage copies what can be read of a journal, or of beanstalkd's files, to a new journal.
func Salvage(dir, newDir string, out io.Writer) error {
	s, err := openSource(dir)
	if err != nil {
		return err
	}
	defer s.close()
	logs, err := foreignLogs(s)
	if err != nil {
		return err
	}
	if !logs {
		if _, err := s.journal(); err != nil {
			return err
		}
	}
	t, err := openTarget(newDir, dir)
	if err != nil {
		return err
	}
	r := newReplica()
	defer r.close()
	w := rescue{r: r}
	if logs {
		err = w.readLogs(s, out)
	} else {
		err = w.readJournal(s, out)
	}
	if err == nil {
		err = w.write(newDir)
	}
	if err != nil {
		t.discard()
		return err
	}
	fmt.Fprintf(out, "copied: %s into %s", counted(w.jobs, "job", "jobs"), newDir)
	if n := len(r.paused); n > 0 {
		fmt.Fprintf(out, ", %s", counted(n, "paused tube", "paused tubes"))
	}
	if n := len(r.core.RecordedPolicies().List()); n > 0 {
		fmt.Fprintf(out, ", %s", counted(n, "policy", "policies"))
	}
	fmt.Fprintf(out, "; ids continue from %d\n", w.highID+1)
	return t.close()
}

// foreignLogs reports whether the jobs are in beanstalkd's files, not in a journal.
func foreignLogs(s *source) (bool, error) {
	files, err := binlog.Files(s.dir)
	if err != nil || len(files) == 0 {
		return false, err
	}
	if s.survey == nil {
		return true, nil
	}
	if _, err := os.Stat(filepath.Join(s.dir, "importing")); err == nil {
		return true, nil // the import was never finished
	}
	last := files[len(files)-1].Number
	if s.survey.Globals.Imported < last && len(s.survey.Losses) == 0 {
		return false, client.Errorf(client.Dir, "%s holds a journal and files of beanstalkd, up to binlog.%d, which are not in the journal: copy one of the two elsewhere, and salvage the copy", s.dir, last)
	}
	return false, nil
}

// readJournal reads the jobs of a journal.
func (w *rescue) readJournal(s *source, out io.Writer) error {
	v := s.survey
	var batches, bytes int64
	for _, seg := range v.Segments {
		batches += int64(seg.Batches)
	}
	if batches == 0 && len(v.Losses) > 0 {
		return client.Errorf(client.Damage, "nothing in %s can be read: %v", s.dir, &v.Losses[0].Damage)
	}
	if err := w.r.read(v, true); err != nil {
		return err
	}
	w.highID, w.imported = v.Globals.HighID, v.Globals.Imported
	s.writeLosses(out)
	s.writeTorn(out, "readable batches after it are copied")
	var lost uint64
	for _, l := range v.Losses {
		bytes += max(0, l.End-l.Offset)
		lost += l.Count()
	}
	fmt.Fprintf(out, "read: %s of journal %s\n", counted(batches, "batch", "batches"), v.UUID)
	if len(v.Losses) == 0 {
		fmt.Fprintln(out, "lost: nothing that was durable")
		return nil
	}
	fmt.Fprintf(out, "lost: %s with %s in %s", counted(lost, "batch", "batches"), counted(bytes, "byte", "bytes"), counted(len(v.Losses), "place", "places"))
	if n := w.r.unfinished; n > 0 {
		fmt.Fprintf(out, ", and %s whose body was in part there", counted(n, "job", "jobs"))
	}
	fmt.Fprint(out, "\n", backAgain)
	return nil
}

// backAgain explains the consequences of a loss.
const backAgain = "jobs put in the lost part are gone; jobs deleted there come back, and jobs changed there have their old state\n"

// readLogs reads the jobs of beanstalkd's files.
func (w *rescue) readLogs(s *source, out io.Writer) error {
	c, err := binlog.ReadDir(s.dir, binlog.Options{Salvage: true})
	if err != nil {
		return fmt.Errorf("reading beanstalkd's files in %s: %w", s.dir, err)
	}
	for rec, err := range restore.Records(c) {
		if err == nil {
			err = w.r.apply(rec)
		}
		if err != nil {
			return err
		}
	}
	w.highID = c.HighestID
	var bytes int64
	n := 0
	for _, d := range c.Damages {
		what := "damage"
		if d.Torn {
			what = "torn end"
		} else {
			bytes += d.Skipped
			n++
		}
		fmt.Fprintf(out, "%s: %s at offset %d: %s (%s skipped)\n", what, filepath.Base(d.Path), d.Offset, d.Reason, counted(d.Skipped, "byte", "bytes"))
	}
	fmt.Fprintf(out, "read: %s in %s of beanstalkd's\n", counted(c.Records, "record", "records"), counted(c.Files, "file", "files"))
	if n == 0 {
		fmt.Fprintln(out, "lost: nothing that was acknowledged")
		return nil
	}
	fmt.Fprintf(out, "lost: %s in %s\n%s", counted(bytes, "byte", "bytes"), counted(n, "place", "places"), backAgain)
	return nil
}

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
	log.Begin()
	w.r.core.CopyPolicies()
	log.End()
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

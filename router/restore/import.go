package restore

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"polystalk/codec/binlog"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// importMark is a file that exists while beanstalkd's files are imported. A journal next to it is
// incomplete and unknown to clients, so it is erased and made again.
const importMark = "importing"

// An importing imports the jobs of a directory that beanstalkd wrote. Its files stay as they
// are.
type importing struct {
	t    *Target
	j    *commit.Journal
	dir  string
	last uint64 // number of beanstalkd's last file

	// jobs is the content of the files; nil if they were imported before. ids and slots have an
	// entry for each job.
	jobs  *binlog.Contents
	ids   []uint64
	slots []uint16
}

// findImport looks for beanstalkd's files, before the journal is read. It returns nil if there
// are none.
func (t *Target) findImport(dir string, j *commit.Journal) (*importing, error) {
	files, err := binlog.Files(dir)
	if err != nil {
		return nil, err
	}
	mark := filepath.Join(dir, importMark)
	_, err = os.Stat(mark)
	if len(files) == 0 {
		if err == nil {
			return nil, fmt.Errorf("an import of beanstalkd's files was interrupted (%s exists), and the files are gone: put them back", mark)
		}
		return nil, nil
	}
	if err == nil {
		t.Log.Warn("an import of beanstalkd's files was interrupted; starting again", "dir", dir)
		if err := wal.Erase(wal.Dir(dir)); err != nil {
			return nil, err
		}
	} else if !os.IsNotExist(err) {
		return nil, err
	}
	return &importing{t: t, j: j, dir: dir, last: files[len(files)-1].Number}, nil
}

// readIfWanted reads the files if they were not imported before. fresh means that the journal is
// empty.
func (m *importing) readIfWanted(fresh bool, replays []*core.Replay) error {
	switch done := m.j.Imported(); {
	case done >= m.last:
		m.t.Log.Info("beanstalkd's files were imported before, and are ignored; they may be removed",
			"dir", m.dir, "files", fmt.Sprintf("binlog.1 to binlog.%d", m.last))
		return nil
	case !fresh:
		return fmt.Errorf("the directory has a journal and also beanstalkd files, up to binlog.%d, that were not imported: move one of the two elsewhere", m.last)
	}
	return m.read(replays)
}

// read reads the jobs into the shards' replays.
func (m *importing) read(replays []*core.Replay) error {
	var err error
	if m.jobs, err = binlog.ReadDir(m.dir, binlog.Options{}); err != nil {
		return fmt.Errorf("importing beanstalkd's files: %w; polystalk journal salvage %s NEWDIR imports the readable part", err, m.dir)
	}
	for _, d := range m.jobs.Damages {
		m.t.Log.Warn("skipped an incomplete record of beanstalkd's files; beanstalkd had not replied to its command", "what", d.Error())
	}
	for r, err := range Records(m.jobs) {
		if err != nil {
			return err
		}
		if err := replays[m.t.Places.OfSlot(r.Slot)].Apply(r); err != nil {
			return err
		}
		m.ids, m.slots = append(m.ids, r.ID), append(m.slots, r.Slot)
	}
	m.j.RaiseID(m.jobs.HighestID)
	if err := os.WriteFile(filepath.Join(m.dir, importMark), nil, 0o600); err != nil {
		return err
	}
	// The mark exists before the journal does.
	return wal.Dir(m.dir).Sync()
}

// importStep is the number of jobs written between two checks of the disk.
const importStep = 256

// write writes the jobs to the journal, after Lead. failed delivers the journal's failure.
func (m *importing) write(to *copier, failed <-chan *commit.Failure) error {
	j := m.j
	for i := range m.ids {
		to.jobs(m.slots[i], m.ids[i:i+1], math.MaxUint64)
		if i%importStep != importStep-1 {
			continue
		}
		j.Wake()
		for j.Pressure() == commit.Wait {
			select {
			case err := <-failed:
				return err
			case <-time.After(time.Millisecond):
			}
		}
		if j.Pressure() == commit.Full {
			return fmt.Errorf("importing beanstalkd's files: the disk is full after %d of %d jobs: free about %d bytes, or use another directory",
				i+1, len(m.ids), 2*m.jobs.BodyBytes)
		}
	}
	if err := j.SetImported(m.last); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(m.dir, importMark)); err != nil {
		return err
	}
	if err := wal.Dir(m.dir).Sync(); err != nil {
		return err // if the mark came back, the next start would begin again
	}
	m.t.Log.Info("beanstalkd's files were imported, and were not changed", "dir", m.dir,
		"files", m.jobs.Files, "last", fmt.Sprintf("binlog.%d", m.last), "jobs", len(m.ids))
	return nil
}

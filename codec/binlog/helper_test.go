package binlog

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// A hand is a record as a test writes it, byte by byte and not by the code under test.
type hand struct {
	tube     string // empty: a short record
	job      Job
	state    byte
	bodySize uint32 // 0: the size of job.Body and CR LF
	body     []byte // nil: job.Body and CR LF; of a full record
}

// full is a record with everything, short a later one about the same job.
func full(id uint64, state byte, body string) hand {
	j := Job{ID: id, Tube: "tube", Pri: 7, Delay: 3 * time.Second, TTR: 5 * time.Second,
		Created: 1_700_000_000_123_456_000, Deadline: 1_700_000_003_123_456_000,
		Reserves: 1, Timeouts: 2, Releases: 3, Buries: 4, Kicks: 5, Body: []byte(body)}
	return hand{tube: j.Tube, job: j, state: state}
}

func short(h hand, state byte) hand {
	h.tube, h.state = "", state
	return h
}

// append encodes h in a version of the format.
func (h hand) append(dst []byte, version uint32) []byte {
	le := binary.LittleEndian
	rec := make([]byte, 80)
	unit := uint64(1)
	if version == 5 {
		rec, unit = rec[:77], 1000
		dst = le.AppendUint64(dst, uint64(len(h.tube)))
	} else {
		dst = le.AppendUint32(dst, uint32(len(h.tube)))
	}
	dst = append(dst, h.tube...)
	j := &h.job
	le.PutUint64(rec[0:], j.ID)
	le.PutUint32(rec[8:], j.Pri)
	le.PutUint64(rec[16:], uint64(j.Delay)/unit)
	le.PutUint64(rec[24:], uint64(j.TTR)/unit)
	le.PutUint32(rec[32:], h.bodySize)
	if h.bodySize == 0 {
		le.PutUint32(rec[32:], uint32(len(j.Body)+2))
	}
	le.PutUint64(rec[40:], uint64(j.Created)/unit)
	le.PutUint64(rec[48:], uint64(j.Deadline)/unit)
	for i, n := range []uint32{j.Reserves, j.Timeouts, j.Releases, j.Buries, j.Kicks} {
		le.PutUint32(rec[56+4*i:], n)
	}
	rec[76] = h.state
	dst = append(dst, rec...)
	if h.tube == "" {
		return dst
	}
	if h.body != nil {
		return append(dst, h.body...)
	}
	return append(append(dst, j.Body...), "\r\n"...)
}

// log is a file of a version that holds records.
func log(version uint32, records ...hand) []byte {
	b := binary.LittleEndian.AppendUint32(nil, version)
	for _, r := range records {
		b = r.append(b, version)
	}
	return b
}

// dirOf is a directory with binlog.1, binlog.2, … of the given bytes.
func dirOf(t *testing.T, files ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	for i, b := range files {
		write(t, filepath.Join(dir, fmt.Sprintf("binlog.%d", i+1)), b)
	}
	return dir
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// jobsOf reads the directory and every body in it.
func jobsOf(dir string, opt Options) (*Contents, []Job, error) {
	c, err := ReadDir(dir, opt)
	if err != nil {
		return nil, nil, err
	}
	var jobs []Job
	for j, err := range c.Jobs(nil) {
		if err != nil {
			return c, jobs, err
		}
		jobs = append(jobs, j)
	}
	return c, jobs, nil
}

// mustJobs is jobsOf a log without any damage.
func mustJobs(t *testing.T, dir string) (*Contents, []Job) {
	t.Helper()
	c, jobs, err := jobsOf(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Damages) > 0 {
		t.Fatalf("damages: %v", c.Damages)
	}
	return c, jobs
}

func checkJobs(t *testing.T, got []Job, want ...Job) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d jobs, want %d: %+v", len(got), len(want), got)
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("job %d of %d:\n got %+v\nwant %+v", i+1, len(got), got[i], want[i])
		}
	}
}

// want is what a reader makes of h.
func (h hand) want(state State) Job {
	j := h.job
	j.State = state
	if state != Delayed {
		j.Deadline = 0
	}
	return j
}
